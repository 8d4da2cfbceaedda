//! Events, event sources and enumerations. None are defined, so every name and index is invalid.

use std::ffi::{c_int, c_void};

use super::{error, name_of, told};
use crate::calls::entry::answers;
use crate::convert::callback::{EventDroppedFunction, EventFreeFunction, EventFunction};
use crate::convert::constants::{
    MPI_T_ERR_INVALID_HANDLE, MPI_T_ERR_INVALID_INDEX, MPI_T_ERR_INVALID_NAME,
};
use crate::convert::pointer::{ChoiceMut, Out, Text, TextOut};
use crate::convert::types::{
    MPI_Aint, MPI_Count, MPI_Datatype, MPI_Info, MPI_T_cb_safety, MPI_T_enum, MPI_T_event_instance,
    MPI_T_event_registration, MPI_T_source_order,
};

fn no_handle() -> c_int {
    told(|| Err(error(MPI_T_ERR_INVALID_HANDLE)))
}

fn no_index() -> c_int {
    told(|| Err(error(MPI_T_ERR_INVALID_INDEX)))
}

answers! {
    fn MPI_T_enum_get_info(
        _enumtype: MPI_T_enum, _num: Out<c_int>, _name: TextOut, _name_len: Out<c_int>,
    ) -> c_int {
        no_handle()
    }

    fn MPI_T_enum_get_item(
        _enumtype: MPI_T_enum, _indx: c_int, _value: Out<c_int>, _name: TextOut,
        _name_len: Out<c_int>,
    ) -> c_int {
        no_handle()
    }

    fn MPI_T_source_get_num(num_sources: Out<c_int>) -> c_int {
        told(|| num_sources.put(0))
    }

    fn MPI_T_source_get_info(
        _source_index: c_int, _name: TextOut, _name_len: Out<c_int>, _desc: TextOut,
        _desc_len: Out<c_int>, _ordering: Out<MPI_T_source_order>,
        _ticks_per_second: Out<MPI_Count>, _max_ticks: Out<MPI_Count>, _info: Out<MPI_Info>,
    ) -> c_int {
        no_index()
    }

    fn MPI_T_source_get_timestamp(_source_index: c_int, _timestamp: Out<MPI_Count>) -> c_int {
        no_index()
    }

    fn MPI_T_event_get_num(num_events: Out<c_int>) -> c_int {
        told(|| num_events.put(0))
    }

    fn MPI_T_event_get_info(
        _event_index: c_int, _name: TextOut, _name_len: Out<c_int>, _verbosity: Out<c_int>,
        _array_of_datatypes: Out<MPI_Datatype>, _array_of_displacements: Out<MPI_Aint>,
        _num_elements: Out<c_int>, _enumtype: Out<MPI_T_enum>, _info: Out<MPI_Info>,
        _desc: TextOut, _desc_len: Out<c_int>, _bind: Out<c_int>,
    ) -> c_int {
        no_index()
    }

    fn MPI_T_event_get_index(name: Text, _event_index: Out<c_int>) -> c_int {
        told(|| {
            name_of(name)?;
            Err(error(MPI_T_ERR_INVALID_NAME))
        })
    }

    fn MPI_T_event_handle_alloc(
        _event_index: c_int, _obj_handle: *mut c_void, _info: MPI_Info,
        _event_registration: Out<MPI_T_event_registration>,
    ) -> c_int {
        no_index()
    }

    fn MPI_T_event_handle_set_info(
        _event_registration: MPI_T_event_registration, _info: MPI_Info,
    ) -> c_int {
        no_handle()
    }

    fn MPI_T_event_handle_get_info(
        _event_registration: MPI_T_event_registration, _info_used: Out<MPI_Info>,
    ) -> c_int {
        no_handle()
    }

    fn MPI_T_event_handle_free(
        _event_registration: MPI_T_event_registration, _user_data: *mut c_void,
        _free_cb_function: Option<EventFreeFunction>,
    ) -> c_int {
        no_handle()
    }

    fn MPI_T_event_register_callback(
        _event_registration: MPI_T_event_registration, _cb_safety: MPI_T_cb_safety,
        _info: MPI_Info, _user_data: *mut c_void, _event_cb_function: Option<EventFunction>,
    ) -> c_int {
        no_handle()
    }

    fn MPI_T_event_callback_set_info(
        _event_registration: MPI_T_event_registration, _cb_safety: MPI_T_cb_safety,
        _info: MPI_Info,
    ) -> c_int {
        no_handle()
    }

    fn MPI_T_event_callback_get_info(
        _event_registration: MPI_T_event_registration, _cb_safety: MPI_T_cb_safety,
        _info_used: Out<MPI_Info>,
    ) -> c_int {
        no_handle()
    }

    fn MPI_T_event_set_dropped_handler(
        _event_registration: MPI_T_event_registration, _dropped_cb_function: Option<EventDroppedFunction>,
    ) -> c_int {
        no_handle()
    }

    fn MPI_T_event_read(
        _event_instance: MPI_T_event_instance, _element_index: c_int, _buffer: ChoiceMut,
    ) -> c_int {
        no_handle()
    }

    fn MPI_T_event_copy(_event_instance: MPI_T_event_instance, _buffer: ChoiceMut) -> c_int {
        no_handle()
    }

    fn MPI_T_event_get_timestamp(
        _event_instance: MPI_T_event_instance, _event_timestamp: Out<MPI_Count>,
    ) -> c_int {
        no_handle()
    }

    fn MPI_T_event_get_source(
        _event_instance: MPI_T_event_instance, _source_index: Out<c_int>,
    ) -> c_int {
        no_handle()
    }
}
