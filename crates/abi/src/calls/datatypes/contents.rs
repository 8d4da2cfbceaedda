//! Decoding of datatypes: the constructor of a datatype, and its arguments.
//!
//! The calls with large counts report more of a datatype that was constructed with large counts. The other calls
//! still work as long as its counts fit an int.

use std::ffi::c_int;

use ferrywire_mpi::datatype::{Contents, Counts, Datatype, Recipe};

use crate::calls::entry::entries;
use crate::convert::constants::{MPI_ERR_ARG, MPI_ERR_TYPE};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::Out;
use crate::convert::sizes::{self, Wide};
use crate::convert::types::{MPI_Aint, MPI_Count, MPI_Datatype};
use crate::objects::datatype::{expose, find};

entries! {
    fn MPI_Type_get_envelope(
        datatype: MPI_Datatype, num_integers: Out<c_int>, num_addresses: Out<c_int>,
        num_datatypes: Out<c_int>, combiner: Out<c_int>,
    ) {
        let datatype = find(datatype)?;
        let contents = contents(datatype, Counts::Small)?;
        put_len(num_integers, contents.integers.len())?;
        put_len(num_addresses, contents.addresses.len())?;
        put_len(num_datatypes, contents.datatypes.len())?;
        combiner.put(datatype.recipe().combiner() as c_int)
    }

    fn MPI_Type_get_envelope_c(
        datatype: MPI_Datatype, num_integers: Out<MPI_Count>, num_addresses: Out<MPI_Count>,
        num_large_counts: Out<MPI_Count>, num_datatypes: Out<MPI_Count>, combiner: Out<c_int>,
    ) {
        let datatype = find(datatype)?;
        let contents = contents(datatype, datatype.counts())?;
        put_len(num_integers, contents.integers.len())?;
        put_len(num_addresses, contents.addresses.len())?;
        put_len(num_large_counts, contents.large_counts.len())?;
        put_len(num_datatypes, contents.datatypes.len())?;
        combiner.put(datatype.recipe().combiner() as c_int)
    }

    fn MPI_Type_get_contents(
        datatype: MPI_Datatype, max_integers: c_int, max_addresses: c_int, max_datatypes: c_int,
        array_of_integers: Out<c_int>, array_of_addresses: Out<MPI_Aint>,
        array_of_datatypes: Out<MPI_Datatype>,
    ) {
        let contents = taken_apart(find(datatype)?, Counts::Small)?;
        let integers = room(array_of_integers, max_integers, contents.integers.len(), "integers")?;
        let addresses =
            room(array_of_addresses, max_addresses, contents.addresses.len(), "addresses")?;
        let datatypes =
            room(array_of_datatypes, max_datatypes, contents.datatypes.len(), "datatypes")?;
        integers.copy_from_slice(&contents.integers);
        put_addresses(addresses, &contents.addresses);
        put_datatypes(datatypes, contents.datatypes);
        Ok(())
    }

    fn MPI_Type_get_contents_c(
        datatype: MPI_Datatype, max_integers: MPI_Count, max_addresses: MPI_Count,
        max_large_counts: MPI_Count, max_datatypes: MPI_Count, array_of_integers: Out<c_int>,
        array_of_addresses: Out<MPI_Aint>, array_of_large_counts: Out<MPI_Count>,
        array_of_datatypes: Out<MPI_Datatype>,
    ) {
        let datatype = find(datatype)?;
        let contents = taken_apart(datatype, datatype.counts())?;
        let integers = room(array_of_integers, max_integers, contents.integers.len(), "integers")?;
        let addresses =
            room(array_of_addresses, max_addresses, contents.addresses.len(), "addresses")?;
        let large_counts = room(
            array_of_large_counts, max_large_counts, contents.large_counts.len(), "large counts",
        )?;
        let datatypes =
            room(array_of_datatypes, max_datatypes, contents.datatypes.len(), "datatypes")?;
        integers.copy_from_slice(&contents.integers);
        put_addresses(addresses, &contents.addresses);
        large_counts.copy_from_slice(&contents.large_counts);
        put_datatypes(datatypes, contents.datatypes);
        Ok(())
    }
}

/// The arguments of the constructor, as the calls with such counts report them.
fn contents(datatype: &Datatype, counts: Counts) -> Result<Contents> {
    datatype.recipe().contents(counts).ok_or_else(|| {
        let why =
            "the datatype was created with counts that do not fit an int; use the variant of this call that \
             ends with _c";
        Failure::new(MPI_ERR_TYPE, why)
    })
}

/// The same for a datatype that is not predefined.
fn taken_apart(datatype: &Datatype, counts: Counts) -> Result<Contents> {
    if let Recipe::Named { name, .. } = datatype.recipe() {
        return Err(Failure::new(
            MPI_ERR_TYPE,
            format!("{name} is predefined and has no contents"),
        ));
    }
    contents(datatype, counts)
}

/// The location for `len` items, if the program has room for them.
fn room<'a, T>(array: Out<T>, max: impl Wide, len: usize, what: &str) -> Result<&'a mut [T]> {
    let max = sizes::length(max)?;
    if max < len {
        let why = format!("the datatype has {len} {what}, but there is room for {max}");
        return Err(Failure::new(MPI_ERR_ARG, why));
    }
    array.slice(len)
}

fn put_len<T: Wide>(out: Out<T>, len: usize) -> Result {
    sizes::put(out, i64::try_from(len).unwrap_or(i64::MAX))
}

fn put_addresses(array: &mut [MPI_Aint], addresses: &[i64]) {
    for (place, &address) in array.iter_mut().zip(addresses) {
        *place = MPI_Aint::narrow(address).expect("addresses have 64 bits");
    }
}

/// Writes new handles, except for predefined datatypes.
fn put_datatypes(array: &mut [MPI_Datatype], datatypes: Vec<Datatype>) {
    for (place, datatype) in array.iter_mut().zip(datatypes) {
        *place = expose(datatype, false);
    }
}
