//! Error handlers of communicators, windows, files and sessions.

use std::ffi::c_int;

use crate::calls::entry::entries;
use crate::convert::callback::ErrorFunction;
use crate::convert::constants::{
    MPI_ERRHANDLER_NULL, MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN, MPI_FILE_NULL,
};
use crate::convert::failure::Result;
use crate::convert::handle;
use crate::convert::pointer::Out;
use crate::convert::types::{MPI_Comm, MPI_Errhandler, MPI_File, MPI_Session, MPI_Win};
use crate::objects::comm;
use crate::objects::errhandler::{
    ErrhandlerKind, Handler, UserErrhandler, call, create, expose, find, free,
};
use crate::objects::file;
use crate::objects::raise;
use crate::objects::session;
use crate::objects::window;

/// The error handler of a file, or the default one for MPI_FILE_NULL.
fn handler_of(handle: MPI_File) -> Result<Handler> {
    match handle {
        MPI_FILE_NULL => Ok(file::default_handler().clone()),
        open => Ok(file::find(open)?.handler()),
    }
}

fn call_or_abort(handler: &Handler, object: usize, code: c_int) {
    if call(handler, object, code) {
        raise::abort(code);
    }
}

entries! {
    fn MPI_Comm_create_errhandler(
        comm_errhandler_fn: Option<ErrorFunction>, errhandler: Out<MPI_Errhandler>,
    ) {
        create(ErrhandlerKind::Comm, comm_errhandler_fn, errhandler)
    }

    fn MPI_Comm_set_errhandler(comm: MPI_Comm, errhandler: MPI_Errhandler) on comm {
        comm::find(comm)?.set_handler(find(ErrhandlerKind::Comm, errhandler)?);
        Ok(())
    }

    fn MPI_Comm_get_errhandler(comm: MPI_Comm, errhandler: Out<MPI_Errhandler>) on comm {
        errhandler.put(expose(&comm::find(comm)?.handler()))
    }

    fn MPI_Comm_call_errhandler(comm: MPI_Comm, errorcode: c_int) on comm {
        call_or_abort(&comm::find(comm)?.handler(), comm.0, errorcode);
        Ok(())
    }

    fn MPI_Win_create_errhandler(
        win_errhandler_fn: Option<ErrorFunction>, errhandler: Out<MPI_Errhandler>,
    ) {
        create(ErrhandlerKind::Win, win_errhandler_fn, errhandler)
    }

    fn MPI_Win_set_errhandler(win: MPI_Win, errhandler: MPI_Errhandler) on win {
        window::find(win)?.set_handler(find(ErrhandlerKind::Win, errhandler)?);
        Ok(())
    }

    fn MPI_Win_get_errhandler(win: MPI_Win, errhandler: Out<MPI_Errhandler>) on win {
        errhandler.put(expose(&window::find(win)?.handler()))
    }

    fn MPI_Win_call_errhandler(win: MPI_Win, errorcode: c_int) on win {
        call_or_abort(&window::find(win)?.handler(), win.0, errorcode);
        Ok(())
    }

    fn MPI_File_create_errhandler(
        file_errhandler_fn: Option<ErrorFunction>, errhandler: Out<MPI_Errhandler>,
    ) {
        create(ErrhandlerKind::File, file_errhandler_fn, errhandler)
    }

    fn MPI_File_set_errhandler(file: MPI_File, errhandler: MPI_Errhandler) on file {
        let handler = find(ErrhandlerKind::File, errhandler)?;
        match file {
            MPI_FILE_NULL => *file::default_handler() = handler,
            open => file::find(open)?.set_handler(handler),
        }
        Ok(())
    }

    fn MPI_File_get_errhandler(file: MPI_File, errhandler: Out<MPI_Errhandler>) on file {
        errhandler.put(expose(&handler_of(file)?))
    }

    fn MPI_File_call_errhandler(fh: MPI_File, errorcode: c_int) on fh {
        call_or_abort(&handler_of(fh)?, fh.0, errorcode);
        Ok(())
    }

    fn MPI_Session_create_errhandler(
        session_errhandler_fn: Option<ErrorFunction>, errhandler: Out<MPI_Errhandler>,
    ) {
        create(ErrhandlerKind::Session, session_errhandler_fn, errhandler)
    }

    fn MPI_Session_set_errhandler(session: MPI_Session, errhandler: MPI_Errhandler) on session {
        session::find(session)?.set_handler(find(ErrhandlerKind::Session, errhandler)?);
        Ok(())
    }

    fn MPI_Session_get_errhandler(session: MPI_Session, errhandler: Out<MPI_Errhandler>) on session {
        errhandler.put(expose(&session::find(session)?.handler()))
    }

    fn MPI_Session_call_errhandler(session: MPI_Session, errorcode: c_int) on session {
        call_or_abort(&session::find(session)?.handler(), session.0, errorcode);
        Ok(())
    }

    fn MPI_Errhandler_free(errhandler: Out<MPI_Errhandler>) {
        match errhandler.get()? {
            // The program also gets these when it queries a handler.
            MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT | MPI_ERRORS_RETURN => {}
            MPI_Errhandler(address) => {
                free(handle::find(address)?)?;
                drop(handle::release::<UserErrhandler>(address)?);
            }
        }
        errhandler.put(MPI_ERRHANDLER_NULL)
    }
}
