//! Constructors of datatypes.
//!
//! A datatype records whether it was constructed with large counts, because the calls that decode it depend on that.

use std::ffi::c_int;

use ferrywire_host::ErrorCode;
use ferrywire_mpi::datatype::{Datatype, Dimension, Distribution, Error, Order};

use crate::calls::entry::entries;
use crate::convert::argument::PeerRank;
use crate::convert::constants::{
    MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_NONE,
    MPI_ERR_ARG, MPI_ORDER_C, MPI_ORDER_FORTRAN,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::{In, Out};
use crate::convert::sizes::{self, Wide, wide_all};
use crate::convert::types::{MPI_Count, MPI_Datatype};
use crate::objects::datatype::{expose, find};

entries! {
    fn MPI_Type_contiguous / MPI_Type_contiguous_c (
        count: Size, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        give::<Size>(newtype, find(oldtype)?.contiguous(count.wide()))
    }

    fn MPI_Type_vector / MPI_Type_vector_c (
        count: Size, blocklength: Size, stride: Size, oldtype: MPI_Datatype,
        newtype: Out<MPI_Datatype>,
    ) {
        let made = find(oldtype)?.vector(count.wide(), blocklength.wide(), stride.wide());
        give::<Size>(newtype, made)
    }

    fn MPI_Type_create_hvector / MPI_Type_create_hvector_c (
        count: Size, blocklength: Size, stride: Address, oldtype: MPI_Datatype,
        newtype: Out<MPI_Datatype>,
    ) {
        let made = find(oldtype)?.hvector(count.wide(), blocklength.wide(), stride.wide());
        give::<Size>(newtype, made)
    }

    fn MPI_Type_indexed / MPI_Type_indexed_c (
        count: Size, array_of_blocklengths: In<Size>, array_of_displacements: In<Size>,
        oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        let count = blocks(count)?;
        let blocklengths = wide_all(array_of_blocklengths, count)?;
        let displacements = wide_all(array_of_displacements, count)?;
        give::<Size>(newtype, find(oldtype)?.indexed(&blocklengths, &displacements))
    }

    fn MPI_Type_create_hindexed / MPI_Type_create_hindexed_c (
        count: Size, array_of_blocklengths: In<Size>, array_of_displacements: In<Address>,
        oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        let count = blocks(count)?;
        let blocklengths = wide_all(array_of_blocklengths, count)?;
        let displacements = wide_all(array_of_displacements, count)?;
        give::<Size>(newtype, find(oldtype)?.hindexed(&blocklengths, &displacements))
    }

    fn MPI_Type_create_indexed_block / MPI_Type_create_indexed_block_c (
        count: Size, blocklength: Size, array_of_displacements: In<Size>, oldtype: MPI_Datatype,
        newtype: Out<MPI_Datatype>,
    ) {
        let displacements = wide_all(array_of_displacements, blocks(count)?)?;
        give::<Size>(newtype, find(oldtype)?.indexed_block(blocklength.wide(), &displacements))
    }

    fn MPI_Type_create_hindexed_block / MPI_Type_create_hindexed_block_c (
        count: Size, blocklength: Size, array_of_displacements: In<Address>,
        oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        let displacements = wide_all(array_of_displacements, blocks(count)?)?;
        give::<Size>(newtype, find(oldtype)?.hindexed_block(blocklength.wide(), &displacements))
    }

    fn MPI_Type_create_struct / MPI_Type_create_struct_c (
        count: Size, array_of_blocklengths: In<Size>, array_of_displacements: In<Address>,
        array_of_types: In<MPI_Datatype>, newtype: Out<MPI_Datatype>,
    ) {
        let count = blocks(count)?;
        let blocklengths = wide_all(array_of_blocklengths, count)?;
        let displacements = wide_all(array_of_displacements, count)?;
        let types = array_of_types.slice(count)?.iter().map(|&each| find(each).cloned());
        let types = types.collect::<Result<Vec<_>>>()?;
        give::<Size>(newtype, Datatype::structure(&blocklengths, &displacements, &types))
    }

    fn MPI_Type_create_subarray / MPI_Type_create_subarray_c (
        ndims: c_int, array_of_sizes: In<Size>, array_of_subsizes: In<Size>,
        array_of_starts: In<Size>, order: c_int, oldtype: MPI_Datatype,
        newtype: Out<MPI_Datatype>,
    ) {
        let dimensions = sizes::length(ndims)?;
        let array_sizes = wide_all(array_of_sizes, dimensions)?;
        let subsizes = wide_all(array_of_subsizes, dimensions)?;
        let starts = wide_all(array_of_starts, dimensions)?;
        let order = order_of(order)?;
        give::<Size>(newtype, find(oldtype)?.subarray(&array_sizes, &subsizes, &starts, order))
    }

    fn MPI_Type_create_darray / MPI_Type_create_darray_c (
        size: c_int, rank: PeerRank, ndims: c_int, array_of_gsizes: In<Size>,
        array_of_distribs: In<c_int>, array_of_dargs: In<c_int>, array_of_psizes: In<c_int>,
        order: c_int, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        let count = sizes::length(ndims)?;
        let array_sizes = wide_all(array_of_gsizes, count)?;
        let distributions = array_of_distribs.slice(count)?;
        let arguments = array_of_dargs.slice(count)?;
        let processes = array_of_psizes.slice(count)?;
        let dimensions = (0..count).map(|at| {
            Ok(Dimension {
                size: array_sizes[at],
                distribution: distribution_of(distributions[at])?,
                block: Some(arguments[at]).filter(|&block| block != MPI_DISTRIBUTE_DFLT_DARG),
                processes: processes[at],
            })
        });
        let dimensions = dimensions.collect::<Result<Vec<_>>>()?;
        let order = order_of(order)?;
        give::<Size>(newtype, find(oldtype)?.darray(size, rank.number(), &dimensions, order))
    }

    fn MPI_Type_create_resized / MPI_Type_create_resized_c (
        oldtype: MPI_Datatype, lb: Address, extent: Address, newtype: Out<MPI_Datatype>,
    ) {
        give::<Size>(newtype, find(oldtype)?.resized(lb.wide(), extent.wide()))
    }
}

/// Returns a datatype that was constructed with counts of this size.
fn give<Size>(newtype: Out<MPI_Datatype>, made: std::result::Result<Datatype, Error>) -> Result {
    let mut made = made?;
    if size_of::<Size>() == size_of::<MPI_Count>() {
        made = made.with_large_counts();
    }
    newtype.put(expose(made, false))
}

/// A number of blocks, as the length of arrays.
fn blocks(count: impl Wide) -> Result<usize> {
    let count = sizes::count(count)?;
    usize::try_from(count).map_err(|_| Error::TooLarge.into())
}

fn order_of(order: c_int) -> Result<Order> {
    match order {
        MPI_ORDER_C => Ok(Order::C),
        MPI_ORDER_FORTRAN => Ok(Order::Fortran),
        other => {
            let why = format!("invalid order {other}; pass MPI_ORDER_C or MPI_ORDER_FORTRAN");
            Err(Failure::new(MPI_ERR_ARG, why).coded(ErrorCode::CONSTRUCTION))
        }
    }
}

fn distribution_of(distribution: c_int) -> Result<Distribution> {
    match distribution {
        MPI_DISTRIBUTE_NONE => Ok(Distribution::Whole),
        MPI_DISTRIBUTE_BLOCK => Ok(Distribution::Block),
        MPI_DISTRIBUTE_CYCLIC => Ok(Distribution::Cyclic),
        other => Err(Failure::new(
            MPI_ERR_ARG,
            format!(
                "invalid distribution {other}; pass \
                                                        MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC or \
                                                        MPI_DISTRIBUTE_NONE"
            ),
        ).coded(ErrorCode::CONSTRUCTION)),
    }
}
