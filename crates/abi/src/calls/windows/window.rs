//! Creating and freeing windows, and what a program attaches to them.

use std::ffi::{c_int, c_void};

use ferrywire_host::ErrorCode;
use ferrywire_mpi::info::Info;
use ferrywire_runtime::{CallName, WindowKind, WindowSpace};

use crate::calls::communicators::name::cut;
use crate::calls::entry::entries;
use crate::calls::environment::memory;
use crate::convert::argument::PeerRank;
use crate::convert::constants::{
    MPI_ERR_COMM, MPI_ERR_DISP, MPI_ERR_INFO_VALUE, MPI_ERR_RMA_FLAVOR, MPI_ERR_SIZE,
    MPI_MAX_OBJECT_NAME, MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_DYNAMIC,
    MPI_WIN_FLAVOR_SHARED, MPI_WIN_NULL,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle;
use crate::convert::pointer::{Choice, ChoiceMut, Out, Text, TextOut};
use crate::convert::sizes::{self, Wide};
use crate::convert::types::{MPI_Aint, MPI_Comm, MPI_Group, MPI_Info, MPI_Win};
use crate::objects::attribute::KeyvalKind;
use crate::objects::comm::{self, Comm};
use crate::objects::window::{self, Win, find};
use crate::objects::{group, info};

entries! {
    fn MPI_Win_create / MPI_Win_create_c (
        base: ChoiceMut, size: MPI_Aint, disp_unit: Displacement, info: MPI_Info, comm: MPI_Comm,
        win: Out<MPI_Win>,
    ) on comm {
        let kind = WindowKind::Own { address: base.address() };
        create(CALL, comm, MPI_WIN_FLAVOR_CREATE, |_| space(kind, size, disp_unit), info, win).map(|_| ())
    }

    fn MPI_Win_allocate / MPI_Win_allocate_c (
        size: MPI_Aint, disp_unit: Displacement, info: MPI_Info, comm: MPI_Comm,
        baseptr: Out<*mut c_void>, win: Out<MPI_Win>,
    ) on comm {
        let kind = WindowKind::Allocated { adjacent: false };
        let flavor = MPI_WIN_FLAVOR_ALLOCATE;
        baseptr.put(create(CALL, comm, flavor, |_| space(kind, size, disp_unit), info, win)?)
    }

    fn MPI_Win_allocate_shared / MPI_Win_allocate_shared_c (
        size: MPI_Aint, disp_unit: Displacement, info: MPI_Info, comm: MPI_Comm,
        baseptr: Out<*mut c_void>, win: Out<MPI_Win>,
    ) on comm {
        let adjacent = |hints: &Info| hints.value("alloc_shared_noncontig") != Some("true");
        let kind = |hints: &Info| WindowKind::Allocated { adjacent: adjacent(hints) };
        let flavor = MPI_WIN_FLAVOR_SHARED;
        baseptr.put(create(CALL, comm, flavor, |hints| space(kind(hints), size, disp_unit), info, win)?)
    }

    fn MPI_Win_create_dynamic(info: MPI_Info, comm: MPI_Comm, win: Out<MPI_Win>) on comm {
        let all = |_: &Info| space(WindowKind::Dynamic, 0, 1);
        create(CALL, comm, MPI_WIN_FLAVOR_DYNAMIC, all, info, win).map(|_| ())
    }

    fn MPI_Win_attach(win: MPI_Win, base: ChoiceMut, size: MPI_Aint) on win {
        let bytes = length(size)?;
        let object = dynamic(win)?;
        Ok(object.window.attach(object.runtime(), base.address(), bytes)?)
    }

    fn MPI_Win_detach(win: MPI_Win, base: Choice) on win {
        let object = dynamic(win)?;
        Ok(object.window.detach(object.runtime(), base.address())?)
    }

    fn MPI_Win_free(win: Out<MPI_Win>) {
        let handle = win.get()?;
        let object = window::share_of(handle)?;
        object.attributes.delete_all(handle.0).map_err(|failure| failure.of(window::owner(&object)))?;
        object.comm.note_collective(CALL);
        let freed = object.runtime().free_window(&object.window);
        freed.map_err(|error| Failure::from(error).of(window::owner(&object)))?;
        drop(handle::take::<Win>(handle.0)?);
        win.put(MPI_WIN_NULL)
    }

    fn MPI_Win_shared_query / MPI_Win_shared_query_c (
        win: MPI_Win, rank: PeerRank, size: Out<MPI_Aint>, disp_unit: Out<Displacement>,
        baseptr: Out<*mut c_void>,
    ) on win {
        let object = find(win)?;
        let members = object.comm.members.group().size();
        let part = |rank| object.window.shared_part(rank);
        // MPI_PROC_NULL stands for the lowest rank with memory.
        let has_memory = |&rank: &u32| part(rank).is_some_and(|(_, bytes)| bytes > 0);
        let rank = object.target(rank)?;
        let rank = rank.or_else(|| (0..members).find(has_memory)).unwrap_or(0);
        // Memory that is not shared has no address here, and no length.
        let (base, bytes) = part(rank).unwrap_or((std::ptr::null_mut(), 0));
        size.put(MPI_Aint::try_from(bytes).unwrap_or(MPI_Aint::MAX))?;
        sizes::put(disp_unit, object.window.unit(rank).into())?;
        baseptr.put(base.cast())
    }

    fn MPI_Win_get_group(win: MPI_Win, group: Out<MPI_Group>) on win {
        group.put(group::create(find(win)?.comm.members.group().clone()))
    }

    fn MPI_Win_set_info(win: MPI_Win, info: MPI_Info) on win {
        for (key, value) in info::hints(info)?.entries() {
            find(win)?.info().set(key, value);
        }
        Ok(())
    }

    fn MPI_Win_get_info(win: MPI_Win, info_used: Out<MPI_Info>) on win {
        info_used.put(info::create(find(win)?.info().clone()))
    }

    fn MPI_Win_set_name(win: MPI_Win, win_name: Text) on win {
        find(win)?.set_name(cut(win_name)?);
        Ok(())
    }

    fn MPI_Win_get_name(win: MPI_Win, win_name: TextOut, resultlen: Out<c_int>) on win {
        // The only query that MPI_WIN_NULL supports is its name.
        let name = match win {
            MPI_WIN_NULL => "MPI_WIN_NULL".into(),
            _ => find(win)?.name(),
        };
        win_name.put_counted(&name, MPI_MAX_OBJECT_NAME, resultlen)
    }

    fn MPI_Win_set_attr(win: MPI_Win, win_keyval: c_int, attribute_val: *mut c_void) on win {
        find(win)?.attributes.set(KeyvalKind::Win, win.0, win_keyval, attribute_val)
    }

    fn MPI_Win_get_attr(
        win: MPI_Win, win_keyval: c_int, attribute_val: Out<*mut c_void>, flag: Out<c_int>,
    ) on win {
        let object = find(win)?;
        let value = match object.fact(win_keyval) {
            Some(fact) => Some(fact),
            None => object.attributes.value(KeyvalKind::Win, win_keyval)?,
        };
        flag.put(value.is_some().into())?;
        value.map_or(Ok(()), |value| attribute_val.put(value))
    }

    fn MPI_Win_delete_attr(win: MPI_Win, win_keyval: c_int) on win {
        find(win)?.attributes.delete(KeyvalKind::Win, win.0, win_keyval)
    }
}

/// What a member passes for its part of a window.
fn space(kind: WindowKind, size: MPI_Aint, unit: impl Wide) -> Result<WindowSpace> {
    let unit = u32::try_from(unit.wide()).ok().filter(|&unit| unit > 0).ok_or_else(|| {
        let why = format!("invalid displacement unit {}; it must be positive", unit.wide());
        Failure::new(MPI_ERR_DISP, why)
    })?;
    Ok(WindowSpace { kind, bytes: length(size)?, unit, words: None })
}

fn length(size: MPI_Aint) -> Result<u64> {
    u64::try_from(size).map_err(|_| {
        Failure::new(MPI_ERR_SIZE, format!("invalid size {size}; it must not be negative"))
    })
}

/// Creates a window. Returns the address of our part.
fn create(
    name: CallName,
    handle: MPI_Comm,
    flavor: c_int,
    space: impl FnOnce(&Info) -> Result<WindowSpace>,
    hints: MPI_Info,
    place: Out<MPI_Win>,
) -> Result<*mut c_void> {
    let old = comm::share_of(handle)?;
    old.note_collective(name);
    let instance = old.members.next_instance();
    if old.members.inter().is_some() {
        let why = format!("{} is an intercommunicator, which cannot have windows", old.title());
        return Err(Failure::new(MPI_ERR_COMM, why).coded(ErrorCode::INTERCOMM));
    }
    let hints = with_defaults(&info::hints(hints)?, flavor)?;
    let space = space(&hints)?;
    place.put(MPI_WIN_NULL)?;
    let created = old.runtime().duplicate(instance)?;
    let own = handle::share(Comm::made(created, old.title(), &old)?);
    own.runtime().note_name("a window");
    let window = own.runtime().create_window(space)?;
    let base: *mut c_void = match (space.kind, window.shared_part(own.members.rank())) {
        (_, Some((base, _))) => base.cast(),
        (WindowKind::Own { address }, None) => {
            std::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0))
        }
        (_, None) => std::ptr::null_mut(),
    };
    place.put(window::expose(Win::new(window, own, (space, flavor, base.addr()), hints)))?;
    Ok(base)
}

/// The hints of the standard, each with the value that the program has passed or its default. Most allow shortcuts that
/// we do not take, and need no check.
fn with_defaults(passed: &Info, flavor: c_int) -> Result<Info> {
    let mut hints = Info::default();
    let mut set = |key, default| hints.set(key, passed.value(key).unwrap_or(default));
    set("no_locks", "false");
    set("accumulate_ordering", "rar,raw,war,waw");
    set("accumulate_ops", "same_op_no_op");
    set("same_size", "false");
    set("same_disp_unit", "false");
    if flavor == MPI_WIN_FLAVOR_SHARED {
        set("alloc_shared_noncontig", "false");
    }
    // Windows that we allocate begin with a page.
    if let (MPI_WIN_FLAVOR_ALLOCATE | MPI_WIN_FLAVOR_SHARED, Some(bytes)) =
        (flavor, memory::alignment(passed)?)
    {
        if bytes > PAGE {
            let why = format!(
                "{}={bytes}; the memory of windows is aligned to {PAGE}",
                memory::ALIGNMENT
            );
            return Err(Failure::new(MPI_ERR_INFO_VALUE, why));
        }
        hints.set(memory::ALIGNMENT, &bytes.to_string());
    }
    Ok(hints)
}

/// The smallest page.
const PAGE: usize = 4096;

/// A window to which memory can be attached.
fn dynamic<'a>(win: MPI_Win) -> Result<&'a Win> {
    let object = find(win)?;
    match object.flavor() {
        MPI_WIN_FLAVOR_DYNAMIC => Ok(object),
        _ => {
            let why = "the window is not dynamic; memory can be attached to those of MPI_Win_create_dynamic only";
            Err(Failure::new(MPI_ERR_RMA_FLAVOR, why))
        }
    }
}
