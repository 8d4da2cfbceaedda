//! Events: what the NIC reports beside the outcomes of operations. One source has them all.
//!
//! A thread of the program calls callbacks while it polls or waits in a call, without locks, so every callback is safe
//! there, whatever level it was registered with: its `cb_safety` is always MPI_T_CB_REQUIRE_NONE. The agent calls none. An
//! event waits until there is such a thread. Callbacks may call MPI; an event that happens meanwhile comes when they have
//! returned. Of the callbacks of a registration, the one that requires least is called.
//!
//! Invariants, cited below by number.
//!   I1. The program passes functions of the type that the standard gives them, and vouches for what they do.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrywire_host::nic::Notice;
use ferrywire_host::{Report, monotonic_ns};
use ferrywire_mpi::comm::user_tag;
use ferrywire_mpi::info::Info;

use super::category::Category;
use super::{USERS, error, index_of, int, item, name_of, put_text, told};
use crate::calls::entry::answers;
use crate::convert::callback::{EventDroppedFunction, EventFreeFunction, EventFunction};
use crate::convert::constants::{
    MPI_AINT, MPI_INT, MPI_T_BIND_NO_OBJECT, MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE,
    MPI_T_CB_REQUIRE_MPI_RESTRICTED, MPI_T_CB_REQUIRE_NONE, MPI_T_CB_REQUIRE_THREAD_SAFE,
    MPI_T_ERR_INVALID, MPI_T_ERR_INVALID_HANDLE, MPI_T_ERR_INVALID_INDEX, MPI_T_ERR_INVALID_ITEM,
    MPI_T_SOURCE_UNORDERED, MPI_T_VERBOSITY_USER_BASIC, MPI_UNSIGNED_LONG,
};
use crate::convert::failure::Result;
use crate::convert::handle::{self, Kind, Shared};
use crate::convert::pointer::{ChoiceMut, Out, Text, TextOut};
use crate::convert::types::{
    MPI_Aint, MPI_Count, MPI_Datatype, MPI_Info, MPI_T_cb_safety, MPI_T_enum, MPI_T_event_instance,
    MPI_T_event_registration, MPI_T_source_order,
};
use crate::objects::info;

/// A type of events.
pub(super) struct EventKind {
    name: &'static str,
    text: &'static str,
    pub(super) category: Category,
    elements: &'static [EventElement],
}

/// An element of the data of an event.
struct EventElement {
    name: &'static str,
    datatype: MPI_Datatype,
    /// Where it is in the data.
    at: usize,
    bytes: usize,
}

impl EventElement {
    const fn int(name: &'static str, at: usize) -> EventElement {
        EventElement { name, datatype: MPI_INT, at, bytes: 4 }
    }

    const fn wide(name: &'static str, datatype: MPI_Datatype, at: usize) -> EventElement {
        EventElement { name, datatype, at, bytes: 8 }
    }
}

/// All types of events.
pub(super) const EVENTS: &[EventKind] = &[
    EventKind {
        name: "ferrywire_overflow",
        text: "The budget for unexpected messages is used up: a message is refused, and its sender keeps it and what \
               follows it until there is room. Raised at the receiver, once until the sender has nothing left to keep.",
        category: Category::Matching,
        elements: &[
            // Its rank in MPI_COMM_WORLD.
            EventElement::int("source", 0),
            // -1 for a message of the library itself, such as one of a collective.
            EventElement::int("tag", 4),
            EventElement::wide("bytes", MPI_UNSIGNED_LONG, 8),
        ],
    },
    EventKind {
        name: "ferrywire_refusal",
        text: "The NIC has refused an access of another rank to memory of this rank that is not in a window. Raised at \
               the target, for each frame.",
        category: Category::Traffic,
        elements: &[
            // Its rank in MPI_COMM_WORLD.
            EventElement::int("origin", 0),
            EventElement::wide("bytes", MPI_UNSIGNED_LONG, 8),
            EventElement::wide("address", MPI_AINT, 16),
        ],
    },
];
/// The indices of the types.
const OVERFLOW: usize = 0;
const REFUSAL: usize = 1;

/// The longest data of an event.
const DATA_BYTES_MAX: usize = 24;

/// An event, while a callback looks at it.
struct EventInstance {
    kind: usize,
    data: [u8; DATA_BYTES_MAX],
    at_ns: u64,
}

impl Kind for EventInstance {
    const MARK: u32 = 0x4556_494e;
    const ERROR: c_int = MPI_T_ERR_INVALID_HANDLE;
    const NAME: &'static str = "event instance";
}

impl EventInstance {
    fn new(notice: Notice, at_ns: u64) -> EventInstance {
        let mut data = [0; DATA_BYTES_MAX];
        let mut put = |at: usize, bytes: &[u8]| data[at..][..bytes.len()].copy_from_slice(bytes);
        let kind = match notice {
            Notice::Overflow { from, word, len } => {
                let tag = user_tag(word).map_or(-1, u32::cast_signed);
                put(0, &from.0.to_ne_bytes());
                put(4, &tag.to_ne_bytes());
                put(8, &len.to_ne_bytes());
                OVERFLOW
            }
            Notice::Denied { from, span } => {
                put(0, &from.0.to_ne_bytes());
                put(8, &span.len.to_ne_bytes());
                put(16, &span.offset.to_ne_bytes());
                REFUSAL
            }
        };
        EventInstance { kind, data, at_ns }
    }

    /// Copies part of the data.
    fn copy(&self, at: usize, bytes: usize, into: ChoiceMut) -> Result {
        into.place::<u8>().slice(bytes)?.copy_from_slice(&self.data[at..at + bytes]);
        Ok(())
    }
}

/// A registration: who wants to hear of events of one type.
struct Registration {
    kind: usize,
    state: Mutex<RegistrationState>,
}

#[derive(Default)]
struct RegistrationState {
    /// The callback of each level of safety.
    callbacks: [Option<EventCallback>; LEVELS.len()],
    dropped: Option<EventDroppedFunction>,
    freed: Option<FreeCallback>,
}

#[derive(Clone, Copy)]
struct EventCallback {
    function: EventFunction,
    /// An address that the program wants back.
    user_data: usize,
    /// When it was registered: it hears of no earlier events.
    since_ns: u64,
}

/// What is called when the registration is gone.
struct FreeCallback {
    function: EventFreeFunction,
    registration: MPI_T_event_registration,
    user_data: usize,
}

/// Levels of safety, that which requires least first.
const LEVELS: [MPI_T_cb_safety; 4] = [
    MPI_T_CB_REQUIRE_NONE,
    MPI_T_CB_REQUIRE_MPI_RESTRICTED,
    MPI_T_CB_REQUIRE_THREAD_SAFE,
    MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE,
];

/// All registrations. Not locked while callbacks run.
static REGISTRATIONS: Mutex<Vec<Shared<Registration>>> = Mutex::new(Vec::new());

impl Kind for Registration {
    const MARK: u32 = 0x4556_5245;
    const ERROR: c_int = MPI_T_ERR_INVALID_HANDLE;
    const NAME: &'static str = "event registration";
}

impl Registration {
    fn state(&self) -> MutexGuard<'_, RegistrationState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RegistrationState {
    fn callback(&self) -> Option<EventCallback> {
        self.callbacks.iter().copied().find_map(|callback| callback)
    }
}

/// No callback runs any more, on any thread.
impl Drop for Registration {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(FreeCallback { function, registration, user_data }) = state.freed.take() else {
            return;
        };
        // SAFETY: I1.
        unsafe { function(registration, MPI_T_CB_REQUIRE_NONE, pointer(user_data)) };
    }
}

fn registrations() -> MutexGuard<'static, Vec<Shared<Registration>>> {
    REGISTRATIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The registrations for a type. Each share keeps the registration while its callback runs.
fn registered(kind: usize) -> Vec<Shared<Registration>> {
    if USERS.load(Ordering::Relaxed) == 0 {
        return Vec::new();
    }
    registrations().iter().filter(|it| it.kind == kind).cloned().collect()
}

/// Hears what the NIC reports, on a thread of the program that has no lock.
pub(crate) fn on_report(report: Report) {
    match report {
        Report::Happened { notice, at_ns } => on_event(EventInstance::new(notice, at_ns)),
        Report::Lost { overflows, denials } => {
            for (kind, count) in [(OVERFLOW, overflows), (REFUSAL, denials)] {
                if count > 0 {
                    on_dropped(kind, count);
                }
            }
        }
    }
}

fn on_event(event: EventInstance) {
    let wanted = registered(event.kind);
    if wanted.is_empty() {
        return;
    }
    let at_ns = event.at_ns;
    let event = handle::share(event);
    let instance = MPI_T_event_instance(handle::expose(Arc::clone(&event)));
    for registration in wanted {
        let callback = registration.state().callback().filter(|it| it.since_ns <= at_ns);
        if let Some(EventCallback { function, user_data, .. }) = callback {
            let registration = handle_of(&registration);
            // SAFETY: I1.
            unsafe { function(instance, registration, MPI_T_CB_REQUIRE_NONE, pointer(user_data)) };
        }
    }
    let taken = handle::take::<EventInstance>(instance.0);
    debug_assert!(taken.is_ok(), "programs do not free events");
}

fn on_dropped(kind: usize, count: u64) {
    for registration in registered(kind) {
        let (dropped, callback) = {
            let state = registration.state();
            (state.dropped, state.callback())
        };
        let Some(function) = dropped else { continue };
        let user_data = pointer(callback.map_or(0, |callback| callback.user_data));
        let (count, handle) = (count.cast_signed(), handle_of(&registration));
        // SAFETY: I1.
        unsafe { function(count, handle, SOURCE, MPI_T_CB_REQUIRE_NONE, user_data) };
    }
}

fn handle_of(registration: &Shared<Registration>) -> MPI_T_event_registration {
    MPI_T_event_registration(Arc::as_ptr(registration).addr())
}

fn pointer(user_data: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(user_data)
}

/// The index of a level of safety.
fn level(safety: MPI_T_cb_safety) -> Result<usize> {
    LEVELS.iter().position(|&level| level == safety).ok_or_else(|| error(MPI_T_ERR_INVALID))
}

/// The enumeration that names the elements of a type. Zero is no enumeration.
fn enumeration(index: c_int) -> MPI_T_enum {
    MPI_T_enum(usize::try_from(index).map_or(0, |index| index + 1))
}

/// The type whose elements an enumeration names.
fn enumerated(enumeration: MPI_T_enum) -> Result<&'static EventKind> {
    let kind = enumeration.0.checked_sub(1).and_then(|index| EVENTS.get(index));
    kind.ok_or_else(|| error(MPI_T_ERR_INVALID_HANDLE))
}

/// An info object without keys: there are none that we know.
fn no_hints(into: Out<MPI_Info>) -> Result {
    into.put(info::create(Info::default()))
}

fn check_source(index: c_int) -> Result {
    if index == SOURCE { Ok(()) } else { Err(error(MPI_T_ERR_INVALID_INDEX)) }
}

/// The only source: the NICs of all planes, whose events may overtake each other.
const SOURCE: c_int = 0;

answers! {
    fn MPI_T_enum_get_info(
        enumtype: MPI_T_enum, num: Out<c_int>, name: TextOut, name_len: Out<c_int>,
    ) -> c_int {
        told(|| {
            let kind = enumerated(enumtype)?;
            num.put_if_wanted(int(kind.elements.len()));
            put_text(kind.name, name, name_len)
        })
    }

    fn MPI_T_enum_get_item(
        enumtype: MPI_T_enum, indx: c_int, value: Out<c_int>, name: TextOut, name_len: Out<c_int>,
    ) -> c_int {
        told(|| {
            let elements = enumerated(enumtype)?.elements;
            let element = item(elements, indx).map_err(|_| error(MPI_T_ERR_INVALID_ITEM))?;
            value.put_if_wanted(indx);
            put_text(element.name, name, name_len)
        })
    }

    fn MPI_T_source_get_num(num_sources: Out<c_int>) -> c_int {
        told(|| num_sources.put(SOURCE + 1))
    }

    fn MPI_T_source_get_info(
        source_index: c_int, name: TextOut, name_len: Out<c_int>, desc: TextOut,
        desc_len: Out<c_int>, ordering: Out<MPI_T_source_order>,
        ticks_per_second: Out<MPI_Count>, max_ticks: Out<MPI_Count>, info: Out<MPI_Info>,
    ) -> c_int {
        told(|| {
            check_source(source_index)?;
            put_text("ferrywire_nic", name, name_len)?;
            put_text("The NIC of this rank, in all planes.", desc, desc_len)?;
            ordering.put_if_wanted(MPI_T_SOURCE_UNORDERED);
            ticks_per_second.put_if_wanted(1_000_000_000);
            max_ticks.put_if_wanted(MPI_Count::MAX);
            if info.is_null() { Ok(()) } else { no_hints(info) }
        })
    }

    fn MPI_T_source_get_timestamp(source_index: c_int, timestamp: Out<MPI_Count>) -> c_int {
        told(|| {
            check_source(source_index)?;
            timestamp.put(monotonic_ns().cast_signed())
        })
    }

    fn MPI_T_event_get_num(num_events: Out<c_int>) -> c_int {
        told(|| num_events.put(int(EVENTS.len())))
    }

    fn MPI_T_event_get_info(
        event_index: c_int, name: TextOut, name_len: Out<c_int>, verbosity: Out<c_int>,
        array_of_datatypes: Out<MPI_Datatype>, array_of_displacements: Out<MPI_Aint>,
        num_elements: Out<c_int>, enumtype: Out<MPI_T_enum>, info: Out<MPI_Info>,
        desc: TextOut, desc_len: Out<c_int>, bind: Out<c_int>,
    ) -> c_int {
        told(|| {
            let kind = item(EVENTS, event_index)?;
            put_text(kind.name, name, name_len)?;
            put_text(kind.text, desc, desc_len)?;
            verbosity.put_if_wanted(MPI_T_VERBOSITY_USER_BASIC);
            if !num_elements.is_null() {
                let room = usize::try_from(num_elements.get()?).unwrap_or(0);
                for (at, element) in kind.elements.iter().take(room).enumerate() {
                    array_of_datatypes.at(at).put_if_wanted(element.datatype);
                    array_of_displacements.at(at).put_if_wanted(element.at.cast_signed());
                }
                num_elements.put(int(kind.elements.len()))?;
            }
            enumtype.put_if_wanted(enumeration(event_index));
            bind.put_if_wanted(MPI_T_BIND_NO_OBJECT);
            if info.is_null() { Ok(()) } else { no_hints(info) }
        })
    }

    fn MPI_T_event_get_index(name: Text, event_index: Out<c_int>) -> c_int {
        told(|| {
            let name = name_of(name)?;
            event_index.put(index_of(EVENTS, |kind| kind.name == name)?)
        })
    }

    fn MPI_T_event_handle_alloc(
        event_index: c_int, _obj_handle: *mut c_void, info: MPI_Info,
        event_registration: Out<MPI_T_event_registration>,
    ) -> c_int {
        told(|| {
            item(EVENTS, event_index)?;
            info::hints(info)?;
            let kind = usize::try_from(event_index).map_err(|_| error(MPI_T_ERR_INVALID_INDEX))?;
            let new = handle::share(Registration { kind, state: Mutex::default() });
            event_registration
                .put(MPI_T_event_registration(handle::expose(Arc::clone(&new))))?;
            registrations().push(new);
            Ok(())
        })
    }

    fn MPI_T_event_handle_set_info(
        event_registration: MPI_T_event_registration, info: MPI_Info,
    ) -> c_int {
        told(|| {
            handle::find::<Registration>(event_registration.0)?;
            info::hints(info).map(drop)
        })
    }

    fn MPI_T_event_handle_get_info(
        event_registration: MPI_T_event_registration, info_used: Out<MPI_Info>,
    ) -> c_int {
        told(|| {
            handle::find::<Registration>(event_registration.0)?;
            no_hints(info_used)
        })
    }

    fn MPI_T_event_handle_free(
        event_registration: MPI_T_event_registration, user_data: *mut c_void,
        free_cb_function: Option<EventFreeFunction>,
    ) -> c_int {
        told(|| {
            let freed = handle::take::<Registration>(event_registration.0)?;
            registrations().retain(|other| !Arc::ptr_eq(other, &freed));
            let callback = free_cb_function.map(|function| FreeCallback {
                function,
                registration: event_registration,
                user_data: user_data.expose_provenance(),
            });
            *freed.state() = RegistrationState { freed: callback, ..RegistrationState::default() };
            Ok(())
        })
    }

    fn MPI_T_event_register_callback(
        event_registration: MPI_T_event_registration, cb_safety: MPI_T_cb_safety, info: MPI_Info,
        user_data: *mut c_void, event_cb_function: Option<EventFunction>,
    ) -> c_int {
        told(|| {
            let registration = handle::find::<Registration>(event_registration.0)?;
            let level = level(cb_safety)?;
            info::hints(info)?;
            registration.state().callbacks[level] = event_cb_function.map(|function| EventCallback {
                function,
                user_data: user_data.expose_provenance(),
                since_ns: monotonic_ns(),
            });
            Ok(())
        })
    }

    fn MPI_T_event_callback_set_info(
        event_registration: MPI_T_event_registration, cb_safety: MPI_T_cb_safety, info: MPI_Info,
    ) -> c_int {
        told(|| {
            handle::find::<Registration>(event_registration.0)?;
            level(cb_safety)?;
            info::hints(info).map(drop)
        })
    }

    fn MPI_T_event_callback_get_info(
        event_registration: MPI_T_event_registration, cb_safety: MPI_T_cb_safety,
        info_used: Out<MPI_Info>,
    ) -> c_int {
        told(|| {
            handle::find::<Registration>(event_registration.0)?;
            level(cb_safety)?;
            no_hints(info_used)
        })
    }

    fn MPI_T_event_set_dropped_handler(
        event_registration: MPI_T_event_registration,
        dropped_cb_function: Option<EventDroppedFunction>,
    ) -> c_int {
        told(|| {
            let registration = handle::find::<Registration>(event_registration.0)?;
            registration.state().dropped = dropped_cb_function;
            Ok(())
        })
    }

    fn MPI_T_event_read(
        event_instance: MPI_T_event_instance, element_index: c_int, buffer: ChoiceMut,
    ) -> c_int {
        told(|| {
            let event = handle::find::<EventInstance>(event_instance.0)?;
            let element = item(EVENTS[event.kind].elements, element_index)?;
            event.copy(element.at, element.bytes, buffer)
        })
    }

    fn MPI_T_event_copy(event_instance: MPI_T_event_instance, buffer: ChoiceMut) -> c_int {
        told(|| {
            let event = handle::find::<EventInstance>(event_instance.0)?;
            let end = EVENTS[event.kind].elements.last().map_or(0, |last| last.at + last.bytes);
            event.copy(0, end, buffer)
        })
    }

    fn MPI_T_event_get_timestamp(
        event_instance: MPI_T_event_instance, event_timestamp: Out<MPI_Count>,
    ) -> c_int {
        told(|| {
            let event = handle::find::<EventInstance>(event_instance.0)?;
            event_timestamp.put(event.at_ns.cast_signed())
        })
    }

    fn MPI_T_event_get_source(
        event_instance: MPI_T_event_instance, source_index: Out<c_int>,
    ) -> c_int {
        told(|| {
            handle::find::<EventInstance>(event_instance.0)?;
            source_index.put(SOURCE)
        })
    }
}
