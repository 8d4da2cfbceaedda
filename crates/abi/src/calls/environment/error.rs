//! Error classes and codes: their texts, and those that the program adds.

use std::ffi::c_int;

use ferrywire_host::error_code::shortened;

use crate::calls::entry::entries;
use crate::convert::constants::MPI_MAX_ERROR_STRING;
use crate::convert::pointer::{Out, Text, TextOut};
use crate::objects::error::{added, class, text};
use crate::objects::predefined;

entries! {
    fn MPI_Error_class(errorcode: c_int, errorclass: Out<c_int>) {
        errorclass.put(class(errorcode))
    }

    fn MPI_Error_string(errorcode: c_int, string: TextOut, resultlen: Out<c_int>) {
        let text = shortened(&text(errorcode), MPI_MAX_ERROR_STRING as usize - 1);
        string.put_counted(&text, MPI_MAX_ERROR_STRING, resultlen)
    }

    fn MPI_Add_error_class(errorclass: Out<c_int>) {
        let class = added().add(None)?;
        predefined::set_last_used_code(class);
        errorclass.put(class)
    }

    fn MPI_Add_error_code(errorclass: c_int, errorcode: Out<c_int>) {
        let code = added().add(Some(errorclass))?;
        predefined::set_last_used_code(code);
        errorcode.put(code)
    }

    fn MPI_Add_error_string(errorcode: c_int, string: Text) {
        added().own(errorcode)?.text = string.get()?;
        Ok(())
    }

    fn MPI_Remove_error_class(errorclass: c_int) {
        added().remove(errorclass, true)
    }

    fn MPI_Remove_error_code(errorcode: c_int) {
        added().remove(errorcode, false)
    }

    fn MPI_Remove_error_string(errorcode: c_int) {
        added().own(errorcode)?.text.clear();
        Ok(())
    }
}
