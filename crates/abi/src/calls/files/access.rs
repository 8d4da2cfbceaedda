//! Reading and writing files.

use crate::calls::entry::entries;
use crate::calls::files::perform::{Begin, Direction, Order, begin, end, perform, start};
use crate::convert::pointer::{Choice, ChoiceMut, Out};
use crate::convert::types::{MPI_Datatype, MPI_File, MPI_Offset, MPI_Request, MPI_Status};
use crate::objects::file::SplitCall;

entries! {
    fn MPI_File_read_at / MPI_File_read_at_c (
        fh: MPI_File, offset: MPI_Offset, buf: ChoiceMut, count: Size, datatype: MPI_Datatype,
        status: Out<MPI_Status>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        status.report_result(perform(CALL, fh, Direction::Read, Order::Alone(Begin::Offset(offset)), elements))
    }

    fn MPI_File_write_at / MPI_File_write_at_c (
        fh: MPI_File, offset: MPI_Offset, buf: Choice, count: Size, datatype: MPI_Datatype,
        status: Out<MPI_Status>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        status.report_result(perform(CALL, fh, Direction::Write, Order::Alone(Begin::Offset(offset)), elements))
    }

    fn MPI_File_read_at_all / MPI_File_read_at_all_c (
        fh: MPI_File, offset: MPI_Offset, buf: ChoiceMut, count: Size, datatype: MPI_Datatype,
        status: Out<MPI_Status>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        status.report_result(perform(CALL, fh, Direction::Read, Order::Together(Begin::Offset(offset)), elements))
    }

    fn MPI_File_write_at_all / MPI_File_write_at_all_c (
        fh: MPI_File, offset: MPI_Offset, buf: Choice, count: Size, datatype: MPI_Datatype,
        status: Out<MPI_Status>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        status.report_result(perform(CALL, fh, Direction::Write, Order::Together(Begin::Offset(offset)), elements))
    }

    fn MPI_File_read / MPI_File_read_c (
        fh: MPI_File, buf: ChoiceMut, count: Size, datatype: MPI_Datatype, status: Out<MPI_Status>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        status.report_result(perform(CALL, fh, Direction::Read, Order::Alone(Begin::Pointer), elements))
    }

    fn MPI_File_write / MPI_File_write_c (
        fh: MPI_File, buf: Choice, count: Size, datatype: MPI_Datatype, status: Out<MPI_Status>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        status.report_result(perform(CALL, fh, Direction::Write, Order::Alone(Begin::Pointer), elements))
    }

    fn MPI_File_read_all / MPI_File_read_all_c (
        fh: MPI_File, buf: ChoiceMut, count: Size, datatype: MPI_Datatype, status: Out<MPI_Status>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        status.report_result(perform(CALL, fh, Direction::Read, Order::Together(Begin::Pointer), elements))
    }

    fn MPI_File_write_all / MPI_File_write_all_c (
        fh: MPI_File, buf: Choice, count: Size, datatype: MPI_Datatype, status: Out<MPI_Status>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        status.report_result(perform(CALL, fh, Direction::Write, Order::Together(Begin::Pointer), elements))
    }

    fn MPI_File_read_shared / MPI_File_read_shared_c (
        fh: MPI_File, buf: ChoiceMut, count: Size, datatype: MPI_Datatype, status: Out<MPI_Status>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        status.report_result(perform(CALL, fh, Direction::Read, Order::Alone(Begin::Shared), elements))
    }

    fn MPI_File_write_shared / MPI_File_write_shared_c (
        fh: MPI_File, buf: Choice, count: Size, datatype: MPI_Datatype, status: Out<MPI_Status>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        status.report_result(perform(CALL, fh, Direction::Write, Order::Alone(Begin::Shared), elements))
    }

    fn MPI_File_read_ordered / MPI_File_read_ordered_c (
        fh: MPI_File, buf: ChoiceMut, count: Size, datatype: MPI_Datatype, status: Out<MPI_Status>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        status.report_result(perform(CALL, fh, Direction::Read, Order::InRanks, elements))
    }

    fn MPI_File_write_ordered / MPI_File_write_ordered_c (
        fh: MPI_File, buf: Choice, count: Size, datatype: MPI_Datatype, status: Out<MPI_Status>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        status.report_result(perform(CALL, fh, Direction::Write, Order::InRanks, elements))
    }

    fn MPI_File_iread_at / MPI_File_iread_at_c (
        fh: MPI_File, offset: MPI_Offset, buf: ChoiceMut, count: Size, datatype: MPI_Datatype,
        request: Out<MPI_Request>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        request.put(start(CALL, fh, Direction::Read, Order::Alone(Begin::Offset(offset)), elements)?)
    }

    fn MPI_File_iwrite_at / MPI_File_iwrite_at_c (
        fh: MPI_File, offset: MPI_Offset, buf: Choice, count: Size, datatype: MPI_Datatype,
        request: Out<MPI_Request>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        request.put(start(CALL, fh, Direction::Write, Order::Alone(Begin::Offset(offset)), elements)?)
    }

    fn MPI_File_iread_at_all / MPI_File_iread_at_all_c (
        fh: MPI_File, offset: MPI_Offset, buf: ChoiceMut, count: Size, datatype: MPI_Datatype,
        request: Out<MPI_Request>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        request.put(start(CALL, fh, Direction::Read, Order::Together(Begin::Offset(offset)), elements)?)
    }

    fn MPI_File_iwrite_at_all / MPI_File_iwrite_at_all_c (
        fh: MPI_File, offset: MPI_Offset, buf: Choice, count: Size, datatype: MPI_Datatype,
        request: Out<MPI_Request>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        request.put(start(CALL, fh, Direction::Write, Order::Together(Begin::Offset(offset)), elements)?)
    }

    fn MPI_File_iread / MPI_File_iread_c (
        fh: MPI_File, buf: ChoiceMut, count: Size, datatype: MPI_Datatype,
        request: Out<MPI_Request>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        request.put(start(CALL, fh, Direction::Read, Order::Alone(Begin::Pointer), elements)?)
    }

    fn MPI_File_iwrite / MPI_File_iwrite_c (
        fh: MPI_File, buf: Choice, count: Size, datatype: MPI_Datatype, request: Out<MPI_Request>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        request.put(start(CALL, fh, Direction::Write, Order::Alone(Begin::Pointer), elements)?)
    }

    fn MPI_File_iread_all / MPI_File_iread_all_c (
        fh: MPI_File, buf: ChoiceMut, count: Size, datatype: MPI_Datatype,
        request: Out<MPI_Request>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        request.put(start(CALL, fh, Direction::Read, Order::Together(Begin::Pointer), elements)?)
    }

    fn MPI_File_iwrite_all / MPI_File_iwrite_all_c (
        fh: MPI_File, buf: Choice, count: Size, datatype: MPI_Datatype, request: Out<MPI_Request>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        request.put(start(CALL, fh, Direction::Write, Order::Together(Begin::Pointer), elements)?)
    }

    fn MPI_File_iread_shared / MPI_File_iread_shared_c (
        fh: MPI_File, buf: ChoiceMut, count: Size, datatype: MPI_Datatype,
        request: Out<MPI_Request>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        request.put(start(CALL, fh, Direction::Read, Order::Alone(Begin::Shared), elements)?)
    }

    fn MPI_File_iwrite_shared / MPI_File_iwrite_shared_c (
        fh: MPI_File, buf: Choice, count: Size, datatype: MPI_Datatype, request: Out<MPI_Request>,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        request.put(start(CALL, fh, Direction::Write, Order::Alone(Begin::Shared), elements)?)
    }

    fn MPI_File_read_at_all_begin / MPI_File_read_at_all_begin_c (
        fh: MPI_File, offset: MPI_Offset, buf: ChoiceMut, count: Size, datatype: MPI_Datatype,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        begin(CALL, fh, SplitCall::ReadAt, Order::Together(Begin::Offset(offset)), elements)
    }

    fn MPI_File_read_at_all_end(fh: MPI_File, _buf: ChoiceMut, status: Out<MPI_Status>) on fh {
        status.report_result(end(fh, SplitCall::ReadAt))
    }

    fn MPI_File_write_at_all_begin / MPI_File_write_at_all_begin_c (
        fh: MPI_File, offset: MPI_Offset, buf: Choice, count: Size, datatype: MPI_Datatype,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        begin(CALL, fh, SplitCall::WriteAt, Order::Together(Begin::Offset(offset)), elements)
    }

    fn MPI_File_write_at_all_end(fh: MPI_File, _buf: Choice, status: Out<MPI_Status>) on fh {
        status.report_result(end(fh, SplitCall::WriteAt))
    }

    fn MPI_File_read_all_begin / MPI_File_read_all_begin_c (
        fh: MPI_File, buf: ChoiceMut, count: Size, datatype: MPI_Datatype,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        begin(CALL, fh, SplitCall::Read, Order::Together(Begin::Pointer), elements)
    }

    fn MPI_File_read_all_end(fh: MPI_File, _buf: ChoiceMut, status: Out<MPI_Status>) on fh {
        status.report_result(end(fh, SplitCall::Read))
    }

    fn MPI_File_write_all_begin / MPI_File_write_all_begin_c (
        fh: MPI_File, buf: Choice, count: Size, datatype: MPI_Datatype,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        begin(CALL, fh, SplitCall::Write, Order::Together(Begin::Pointer), elements)
    }

    fn MPI_File_write_all_end(fh: MPI_File, _buf: Choice, status: Out<MPI_Status>) on fh {
        status.report_result(end(fh, SplitCall::Write))
    }

    fn MPI_File_read_ordered_begin / MPI_File_read_ordered_begin_c (
        fh: MPI_File, buf: ChoiceMut, count: Size, datatype: MPI_Datatype,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        begin(CALL, fh, SplitCall::ReadOrdered, Order::InRanks, elements)
    }

    fn MPI_File_read_ordered_end(fh: MPI_File, _buf: ChoiceMut, status: Out<MPI_Status>) on fh {
        status.report_result(end(fh, SplitCall::ReadOrdered))
    }

    fn MPI_File_write_ordered_begin / MPI_File_write_ordered_begin_c (
        fh: MPI_File, buf: Choice, count: Size, datatype: MPI_Datatype,
    ) on fh {
        let elements = (buf.address(), count, datatype);
        begin(CALL, fh, SplitCall::WriteOrdered, Order::InRanks, elements)
    }

    fn MPI_File_write_ordered_end(fh: MPI_File, _buf: Choice, status: Out<MPI_Status>) on fh {
        status.report_result(end(fh, SplitCall::WriteOrdered))
    }
}
