//! Sessions and process sets.

use std::ffi::c_int;

use ferrywire_host::ErrorCode;
use ferrywire_mpi::info::Info;

use crate::calls::entry::entries;
use crate::calls::environment::membership;
use crate::calls::point_to_point::buffered;
use crate::convert::constants::{
    MPI_ERR_ARG, MPI_ERR_INFO_VALUE, MPI_SESSION_NULL, MPI_THREAD_FUNNELED, MPI_THREAD_MULTIPLE,
    MPI_THREAD_SERIALIZED, MPI_THREAD_SINGLE,
};
use crate::convert::failure::{Failure, Owner, Result};
use crate::convert::handle;
use crate::convert::pointer::{Out, Text, TextOut};
use crate::convert::sizes;
use crate::convert::types::{MPI_Errhandler, MPI_Group, MPI_Info, MPI_Session};
use crate::objects::errhandler::{self, ErrhandlerKind, Handler};
use crate::objects::group;
use crate::objects::info;
use crate::objects::session::{Creation, Session, find, process_set, process_sets, share_of};

/// The names of thread levels in info objects.
const THREAD_LEVELS: [(&str, c_int); 4] = [
    ("MPI_THREAD_SINGLE", MPI_THREAD_SINGLE),
    ("MPI_THREAD_FUNNELED", MPI_THREAD_FUNNELED),
    ("MPI_THREAD_SERIALIZED", MPI_THREAD_SERIALIZED),
    ("MPI_THREAD_MULTIPLE", MPI_THREAD_MULTIPLE),
];

/// Opens a session. Every thread level is provided.
fn open(hints: MPI_Info, handler: &Handler) -> Result<MPI_Session> {
    let hints = info::hints(hints)?;
    let wanted = hints.value("thread_level").unwrap_or(THREAD_LEVELS[0].0);
    let Some((_, wanted)) = THREAD_LEVELS.into_iter().find(|(name, _)| *name == wanted) else {
        let why = format!(
            "invalid thread_level \"{wanted}\"; it must be the name of one, as in MPI_THREAD_MULTIPLE"
        );
        return Err(Failure::new(MPI_ERR_INFO_VALUE, why));
    };
    let provided = membership::open_session(wanted)?;
    let level = THREAD_LEVELS.into_iter().rfind(|(_, level)| *level <= provided);
    let (name, _) = level.unwrap_or(THREAD_LEVELS[0]);
    let mut facts = Info::default();
    facts.set("thread_level", name);
    Ok(MPI_Session(handle::expose(handle::share(Session::new(facts, handler.clone())))))
}

/// Closes a session. The program has freed what it made from it, apart from groups.
fn close(session: MPI_Session) -> Result {
    let open = share_of(session)?;
    let end = || {
        buffered::flush(&open.buffer)?;
        drop(handle::take::<Session>(session.0)?);
        membership::close_session();
        Ok(())
    };
    end().map_err(|failure: Failure| failure.of(open.clone() as std::sync::Arc<dyn Owner>))
}

/// Writes the length of a text with its zero, and as much of the text as fits the length that was there.
fn put_counted(text: &str, len: Out<c_int>, place: TextOut) -> Result {
    let room = sizes::length(len.get()?)?;
    if room > 0 {
        place.put(text, room)?;
    }
    len.put(c_int::try_from(text.len() + 1).expect("names are short"))
}

entries! {
    fn MPI_Session_init(info: MPI_Info, errhandler: MPI_Errhandler, session: Out<MPI_Session>) {
        let handler = errhandler::find(ErrhandlerKind::Session, errhandler)?;
        let opened = open(info, &handler);
        let owned = opened.map_err(|failure| failure.of(Creation::of("the new session", &handler, MPI_SESSION_NULL.0)));
        session.put(owned?)
    }

    fn MPI_Session_finalize(session: Out<MPI_Session>) {
        close(session.get()?)?;
        session.put(MPI_SESSION_NULL)
    }

    fn MPI_Session_get_info(session: MPI_Session, info_used: Out<MPI_Info>) on session {
        info_used.put(info::create(find(session)?.info.clone()))
    }

    fn MPI_Session_get_num_psets(
        session: MPI_Session, _info: MPI_Info, npset_names: Out<c_int>,
    ) on session {
        find(session)?;
        npset_names.put(c_int::try_from(process_sets()?.len()).expect("there are few"))
    }

    fn MPI_Session_get_nth_pset(
        session: MPI_Session, _info: MPI_Info, n: c_int, pset_len: Out<c_int>, pset_name: TextOut,
    ) on session {
        find(session)?;
        let sets = process_sets()?;
        let Some(name) = usize::try_from(n).ok().and_then(|n| sets.get(n)) else {
            let why = format!("invalid number {n} of a process set; there are {}", sets.len());
            return Err(Failure::new(MPI_ERR_ARG, why).coded(ErrorCode::SESSION));
        };
        put_counted(name, pset_len, pset_name)
    }

    fn MPI_Session_get_pset_info(
        session: MPI_Session, pset_name: Text, info: Out<MPI_Info>,
    ) on session {
        find(session)?;
        let members = process_set(&pset_name.get()?)?;
        let mut facts = Info::default();
        facts.set("mpi_size", &members.size().to_string());
        info.put(info::create(facts))
    }

    fn MPI_Group_from_session_pset(
        session: MPI_Session, pset_name: Text, newgroup: Out<MPI_Group>,
    ) on session {
        let from = share_of(session)?;
        newgroup.put(group::create_in(Some(from), process_set(&pset_name.get()?)?))
    }
}
