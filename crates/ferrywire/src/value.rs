//! Values of any type that serde can serialise, in the compact encoding of postcard.

use ferrywire_runtime::{Rank, Source, Tag, With};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::comm::{Comm, Status, What};
use crate::error::Error;

impl Comm {
    /// Sends a value that serde can serialise.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// ferrywire::local(2, |world| {
    ///     if world.rank() == 0 {
    ///         let map = BTreeMap::from([("one".to_string(), 1), ("two".to_string(), 2)]);
    ///         world.send_value(&map, 1, 0).unwrap();
    ///     } else {
    ///         let (map, _) = world.receive_value::<BTreeMap<String, i32>>(0, 0).unwrap();
    ///         assert_eq!(map["two"], 2);
    ///     }
    /// });
    /// ```
    pub fn send_value<T: Serialize + ?Sized>(
        &self,
        value: &T,
        to: impl Into<Rank>,
        tag: impl Into<Tag>,
    ) -> Result<(), Error> {
        let (to, tag) = (to.into(), tag.into());
        let what = What {
            name: "send_value",
            bytes: None,
            peer: With::To(to),
            tag: Some(tag),
            item: None,
        };
        self.send(&self.emit(what, value)?, to, tag)
    }

    /// Receives a value that was sent by [`send_value`](Comm::send_value). The status counts its encoded bytes.
    pub fn receive_value<T: DeserializeOwned>(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<(T, Status), Error> {
        let (from, tag) = (from.into(), tag.into());
        let (bytes, status) = self.receive_sized::<u8>("receive_value", from, tag)?;
        let what = What::receiving::<u8>("receive_value", &bytes, from, tag);
        Ok((self.parse(what, &bytes)?, status))
    }

    /// Broadcasts the root's value to all ranks. What the other ranks pass is ignored.
    ///
    /// ```
    /// ferrywire::local(3, |world| {
    ///     let name = if world.rank() == 0 { "ferry" } else { "" };
    ///     let name: String = world.broadcast_value(name.to_string(), 0).unwrap();
    ///     assert_eq!(name, "ferry");
    /// });
    /// ```
    pub fn broadcast_value<T: Serialize + DeserializeOwned>(
        &self,
        value: T,
        root: impl Into<Rank>,
    ) -> Result<T, Error> {
        let root = root.into();
        let what = What {
            name: "broadcast_value",
            bytes: None,
            peer: With::Root(root),
            tag: None,
            item: None,
        };
        let is_root = i64::from(self.rank()) == root.0;
        let mut bytes = if is_root { self.emit(what, &value)? } else { Vec::new() };
        let mut len = bytes.len();
        self.broadcast(&mut len, root)?;
        bytes.resize(len, 0);
        self.broadcast(&mut bytes, root)?;
        if is_root { Ok(value) } else { self.parse(what, &bytes) }
    }

    fn emit<T: Serialize + ?Sized>(&self, what: What, value: &T) -> Result<Vec<u8>, Error> {
        postcard::to_allocvec(value).map_err(|error| self.unfit(what, &error))
    }

    fn parse<T: DeserializeOwned>(&self, what: What, bytes: &[u8]) -> Result<T, Error> {
        match postcard::take_from_bytes(bytes) {
            Ok((value, [])) => Ok(value),
            // The bytes of another type may begin with those of this one.
            Ok(_) => Err(self.unfit(what, &postcard::Error::DeserializeBadEncoding)),
            Err(error) => Err(self.unfit(what, &error)),
        }
    }

    fn unfit(&self, what: What, error: &postcard::Error) -> Error {
        Error::Value { call: self.call(what), why: error.to_string() }
    }
}
