//! Info objects: keys with values.

use std::ffi::{CStr, c_char, c_int};

use ferrywire_host::ErrorCode;
use ferrywire_mpi::info::Info;

use crate::calls::entry::entries;
use crate::convert::constants::{
    MPI_ERR_ARG, MPI_ERR_INFO_KEY, MPI_ERR_INFO_NOKEY, MPI_ERR_INFO_VALUE, MPI_INFO_NULL,
    MPI_MAX_INFO_KEY, MPI_MAX_INFO_VAL,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle;
use crate::convert::pointer::{In, Out, Text, TextOut};
use crate::convert::sizes;
use crate::convert::types::MPI_Info;
use crate::objects::info::{InfoObject, contents, create, find, fits, lossy, of_process};

/// A key from the program.
fn key_of(key: Text) -> Result<String> {
    let key = key.get().map_err(|_| Failure::new(MPI_ERR_INFO_KEY, "the key is a null pointer"))?;
    let why = match key.as_str() {
        "" => "the key is empty".into(),
        _ if !fits(&key, MPI_MAX_INFO_KEY) => {
            format!("the key has {} bytes; the limit is {}", key.len(), MPI_MAX_INFO_KEY - 1)
        }
        _ => return Ok(key),
    };
    Err(Failure::new(MPI_ERR_INFO_KEY, why))
}

/// The words of a command line.
fn words(argc: c_int, argv: In<*const c_char>) -> Result<Vec<String>> {
    if argv.is_null() {
        return Ok(Vec::new());
    }
    let word = |word: &*const c_char| {
        // SAFETY: the invariant of `In`: these are strings.
        unsafe { CStr::from_ptr(*word) }.to_string_lossy().into_owned()
    };
    let all = argv.slice(sizes::length(argc)?)?;
    Ok(all.iter().take_while(|word| !word.is_null()).map(word).collect())
}

fn int(len: usize) -> c_int {
    c_int::try_from(len).unwrap_or(c_int::MAX)
}

entries! {
    fn MPI_Info_create(info: Out<MPI_Info>) {
        info.put(create(Info::default()))
    }

    fn MPI_Info_create_env(argc: c_int, argv: In<*const c_char>, info: Out<MPI_Info>) {
        let words = words(argc, argv)?;
        let own = match words.is_empty() {
            true => of_process(std::env::args_os().map(lossy)),
            false => of_process(words.into_iter()),
        };
        info.put(create(own))
    }

    fn MPI_Info_dup(info: MPI_Info, newinfo: Out<MPI_Info>) {
        newinfo.put(create(contents(info)?))
    }

    fn MPI_Info_free(info: Out<MPI_Info>) {
        let own = info.get()?;
        drop(find(own)?);
        handle::take::<InfoObject>(own.0)?;
        info.put(MPI_INFO_NULL)
    }

    fn MPI_Info_set(info: MPI_Info, key: Text, value: Text) {
        let key = key_of(key)?;
        let value =
            value.get().map_err(|_| Failure::new(MPI_ERR_INFO_VALUE, "the value is a null pointer"))?;
        if !fits(&value, MPI_MAX_INFO_VAL) {
            let why = format!("the value has {} bytes; the limit is {}", value.len(), MPI_MAX_INFO_VAL - 1);
            return Err(Failure::new(MPI_ERR_INFO_VALUE, why));
        }
        find(info)?.set(&key, &value);
        Ok(())
    }

    fn MPI_Info_delete(info: MPI_Info, key: Text) {
        let key = key_of(key)?;
        match find(info)?.delete(&key) {
            true => Ok(()),
            false => Err(Failure::new(MPI_ERR_INFO_NOKEY, format!("the info object has no key \"{key}\""))),
        }
    }

    fn MPI_Info_get_string(
        info: MPI_Info, key: Text, buflen: Out<c_int>, value: TextOut, flag: Out<c_int>,
    ) {
        let (contents, key) = (contents(info)?, key_of(key)?);
        let own = contents.value(&key);
        flag.put(own.is_some().into())?;
        let Some(own) = own else { return Ok(()) };
        let room = sizes::length(buflen.get()?)?;
        if room > 0 {
            value.put(own, room)?;
        }
        buflen.put(int(own.len() + 1))
    }

    fn MPI_Info_get(
        info: MPI_Info, key: Text, valuelen: c_int, value: TextOut, flag: Out<c_int>,
    ) {
        let (contents, key) = (contents(info)?, key_of(key)?);
        let own = contents.value(&key);
        flag.put(own.is_some().into())?;
        // Here the length excludes the terminating zero.
        let room = sizes::length(valuelen)? + 1;
        own.map_or(Ok(()), |own| value.put(own, room).map(|_| ()))
    }

    fn MPI_Info_get_valuelen(
        info: MPI_Info, key: Text, valuelen: Out<c_int>, flag: Out<c_int>,
    ) {
        let (contents, key) = (contents(info)?, key_of(key)?);
        let own = contents.value(&key);
        flag.put(own.is_some().into())?;
        own.map_or(Ok(()), |own| valuelen.put(int(own.len())))
    }

    fn MPI_Info_get_nkeys(info: MPI_Info, nkeys: Out<c_int>) {
        nkeys.put(int(contents(info)?.keys().len()))
    }

    fn MPI_Info_get_nthkey(info: MPI_Info, n: c_int, key: TextOut) {
        let contents = contents(info)?;
        let nth = usize::try_from(n).ok().and_then(|n| contents.keys().nth(n));
        let Some(nth) = nth else {
            let why = format!("invalid key index {n}; the info object has {} keys", contents.keys().len());
            return Err(Failure::new(MPI_ERR_ARG, why).coded(ErrorCode::INFO));
        };
        key.put(nth, nth.len() + 1)?;
        Ok(())
    }
}
