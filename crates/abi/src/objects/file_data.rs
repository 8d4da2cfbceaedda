//! Elements of the program on their way to or from a file.

use std::borrow::Cow;

use ferrywire_mpi::datatype::Datatype;

use crate::convert::constants::{MPI_ERR_CONVERSION, MPI_ERR_COUNT};
use crate::convert::failure::{Failure, Result};
use crate::convert::types::MPI_Datatype;
use crate::objects::data::{Data, User, room};
use crate::objects::datatype::{self, KeptHandle};
use crate::objects::representation::{Representation, UserRepresentation};

/// Elements of the program, and what they are in a file.
pub(crate) struct FileData {
    form: Form,
    /// Bytes in the file.
    bytes: u64,
}

enum Form {
    /// The same in memory and in the file.
    Native(Data),
    External32 {
        address: u64,
        count: u64,
        datatype: Datatype,
    },
    User(UserForm),
}

/// Elements that functions of the program convert.
struct UserForm {
    representation: std::sync::Arc<UserRepresentation>,
    native: Data,
    address: u64,
    count: u64,
    handle: KeptHandle,
    /// Bytes of an element in memory and in the file.
    sizes: (u64, u64),
}

impl FileData {
    /// `count` elements at an address.
    pub(crate) fn new(
        representation: &Representation,
        address: u64,
        count: u64,
        handle: MPI_Datatype,
    ) -> Result<FileData> {
        let too_many =
            || Failure::new(MPI_ERR_COUNT, "invalid count: the size in bytes does not fit 64 bits");
        let native = Data::new(address, count, handle)?;
        let datatype = datatype::find_committed(handle)?;
        Ok(match representation {
            Representation::Native(_) => {
                FileData { bytes: native.bytes(), form: Form::Native(native) }
            }
            Representation::External32 => {
                let bytes = datatype.external_size(count).ok_or_else(too_many)?;
                let datatype = datatype.clone();
                FileData { bytes, form: Form::External32 { address, count, datatype } }
            }
            Representation::User(users) => {
                let in_file = representation.in_file(datatype)?.size();
                let converts = users.read.is_some() && users.write.is_some();
                if !converts && in_file != datatype.size() {
                    let why = format!(
                        "\"{}\" has no conversion function, but another size for the datatype",
                        users.name
                    );
                    return Err(Failure::new(MPI_ERR_CONVERSION, why));
                }
                let bytes = in_file.checked_mul(count).ok_or_else(too_many)?;
                let form = UserForm {
                    representation: users.clone(),
                    native,
                    address,
                    count,
                    handle: KeptHandle::new(handle)?,
                    sizes: (datatype.size(), in_file),
                };
                FileData { bytes, form: Form::User(form) }
            }
        })
    }

    /// Bytes in the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes in memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        match &self.form {
            Form::Native(data) => data.bytes(),
            Form::External32 { count, datatype, .. } => datatype.size() * count,
            Form::User(form) => form.native.bytes(),
        }
    }

    /// The pieces of memory that are written to the file as they are, if there are such.
    pub(crate) fn pieces(&self) -> Option<Vec<&[u8]>> {
        match &self.form {
            Form::Native(data) => data.pieces(),
            _ => None,
        }
    }

    /// The pieces of memory that are read into as they are, if there are such.
    pub(crate) fn pieces_mut(&mut self) -> Option<Vec<&mut [u8]>> {
        match &mut self.form {
            Form::Native(data) => data.pieces_mut(),
            _ => None,
        }
    }

    /// The bytes for the file: where they are, or a copy.
    pub(crate) fn to_file(&self) -> Result<Cow<'_, [u8]>> {
        let mut bytes = match &self.form {
            Form::Native(data) => return Ok(data.to_bytes()),
            Form::User(form) if form.representation.write.is_none() => {
                return Ok(form.native.to_bytes());
            }
            _ => room(self.bytes),
        };
        match &self.form {
            _ if self.bytes == 0 => {}
            Form::Native(_) => unreachable!("it is returned above"),
            Form::External32 { address, count, datatype } => {
                datatype.pack_external(*count, &User::new(*address, datatype)?, &mut bytes)?;
            }
            Form::User(form) => {
                let function = form.representation.write.expect("it was tested above");
                form.convert(function, form.count, &mut bytes)?;
            }
        }
        Ok(Cow::Owned(bytes.into()))
    }

    /// Fills the elements with bytes of the file, of which `fill` says how many it has read: where they are, or by a
    /// copy. Returns how many bytes of memory have been filled.
    pub(crate) fn fill(&self, fill: impl FnOnce(&mut [u8]) -> Result<u64>) -> Result<u64> {
        if let Form::Native(data) = &self.form {
            let mut got = 0;
            data.fill_part(|bytes| {
                got = fill(bytes)?;
                Ok::<u64, Failure>(got)
            })?;
            return Ok(got);
        }
        let mut bytes = room(self.bytes);
        let got = fill(&mut bytes)?;
        let in_file = &mut bytes[..usize::try_from(got).expect("no more than there is room for")];
        match &self.form {
            _ if got == 0 => Ok(0),
            Form::Native(_) => unreachable!("it is returned above"),
            Form::External32 { address, count, datatype } => {
                datatype.unpack_external(*count, in_file, &mut User::new(*address, datatype)?)?;
                Ok(datatype.native_bytes_of(got))
            }
            Form::User(form) => match form.representation.read {
                None => {
                    form.native.unpack(in_file);
                    Ok(got)
                }
                Some(function) => {
                    let (native, outside) = form.sizes;
                    let whole = got.checked_div(outside).unwrap_or(form.count);
                    form.convert(function, whole, in_file)?;
                    Ok(whole * native)
                }
            },
        }
    }
}

impl UserForm {
    fn convert(
        &self,
        function: crate::convert::callback::Callback<crate::convert::callback::ConversionCall>,
        count: u64,
        in_file: &mut [u8],
    ) -> Result {
        self.representation.convert(function, (self.address, self.handle.handle, count), in_file)
    }
}
