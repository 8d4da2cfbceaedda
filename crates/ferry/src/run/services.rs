//! The names of ports that ranks have published, for other ranks of the job.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use ferrywire_host::bootstrap::{Answer, Request};

/// Names of ports, by the names of the services that they belong to.
#[derive(Default)]
pub(super) struct Services(BTreeMap<Vec<u8>, Vec<u8>>);

impl Services {
    /// Answers a request for names. `None` if it is for something else.
    pub(super) fn answer(&mut self, request: &Request) -> Option<Answer> {
        Some(match request {
            Request::Publish { service, port } => match self.0.entry(service.clone()) {
                Entry::Occupied(_) => Answer::Published,
                Entry::Vacant(place) => {
                    place.insert(port.clone());
                    Answer::Done
                }
            },
            Request::Unpublish { service } => match self.0.remove(service) {
                Some(_) => Answer::Done,
                None => Answer::NoService,
            },
            Request::LookUp { service } => match self.0.get(service) {
                Some(port) => Answer::Port(port.clone()),
                None => Answer::NoService,
            },
            Request::Spawn { .. } => return None,
        })
    }
}
