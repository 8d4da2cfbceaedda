//! How a datatype was constructed, for `MPI_Type_get_envelope` and `MPI_Type_get_contents`.

use super::Datatype;

/// `MPI_UNDEFINED`: a missing number among the arguments of a constructor.
pub const UNDEFINED: i32 = -32766;

/// A constructor and its arguments.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the arguments are called what the standard calls them")]
pub enum Recipe {
    /// Predefined, with a name.
    Named {
        /// The handle that the standard's ABI gives it.
        handle: u16,
        name: &'static str,
    },
    Dup {
        of: Datatype,
    },
    Contiguous {
        count: i64,
        of: Datatype,
    },
    Vector {
        count: i64,
        blocklength: i64,
        stride: i64,
        of: Datatype,
    },
    Hvector {
        count: i64,
        blocklength: i64,
        stride: i64,
        of: Datatype,
    },
    Indexed {
        blocklengths: Box<[i64]>,
        displacements: Box<[i64]>,
        of: Datatype,
    },
    Hindexed {
        blocklengths: Box<[i64]>,
        displacements: Box<[i64]>,
        of: Datatype,
    },
    IndexedBlock {
        blocklength: i64,
        displacements: Box<[i64]>,
        of: Datatype,
    },
    HindexedBlock {
        blocklength: i64,
        displacements: Box<[i64]>,
        of: Datatype,
    },
    Struct {
        blocklengths: Box<[i64]>,
        displacements: Box<[i64]>,
        of: Box<[Datatype]>,
    },
    Subarray {
        sizes: Box<[i64]>,
        subsizes: Box<[i64]>,
        starts: Box<[i64]>,
        order: Order,
        of: Datatype,
    },
    Darray {
        size: i32,
        rank: i32,
        dimensions: Box<[Dimension]>,
        order: Order,
        of: Datatype,
    },
    F90Real {
        precision: Option<i32>,
        range: Option<i32>,
    },
    F90Complex {
        precision: Option<i32>,
        range: Option<i32>,
    },
    F90Integer {
        range: i32,
    },
    Resized {
        lower: i64,
        extent: i64,
        of: Datatype,
    },
    ValueIndex {
        value: Datatype,
        index: Datatype,
    },
}

/// Which index of an array moves fastest.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Order {
    /// The last.
    C = 12,
    /// The first.
    Fortran = 15,
}

/// How the processes of a grid share a dimension of an array.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Distribution {
    /// Not distributed: it has one process.
    Whole = 16,
    /// One block for each process.
    Block = 17,
    /// Blocks in turn.
    Cyclic = 18,
}

/// A dimension of a distributed array.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Dimension {
    /// Elements of the whole array.
    pub size: i64,
    /// How they are distributed.
    pub distribution: Distribution,
    /// Elements of a block; None for the default size.
    pub block: Option<i32>,
    /// Processes along this dimension of the grid.
    pub processes: i32,
}

/// `MPI_DISTRIBUTE_DFLT_DARG`: the default block size.
const DEFAULT_BLOCK: i32 = 19;

/// A constructor, numbered as in the standard's ABI.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "they are called what the standard calls them")]
pub enum Combiner {
    Named = 101,
    Dup = 102,
    Contiguous = 103,
    Vector = 104,
    Hvector = 105,
    Indexed = 106,
    Hindexed = 107,
    IndexedBlock = 108,
    HindexedBlock = 109,
    Struct = 110,
    Subarray = 111,
    Darray = 112,
    F90Real = 113,
    F90Complex = 114,
    F90Integer = 115,
    Resized = 116,
    ValueIndex = 117,
}

/// The width of the counts that a constructor was called with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Counts {
    /// `int`, and `MPI_Aint` for displacements in bytes.
    Small,
    /// `MPI_Count`: the calls that end in `_c`.
    Large,
}

/// The arguments of a constructor, in the standard's order.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Of type `int`.
    pub integers: Vec<i32>,
    /// Of type `MPI_Aint`.
    pub addresses: Vec<i64>,
    /// Of type `MPI_Count`.
    pub large_counts: Vec<i64>,
    /// The types that it was constructed from.
    pub datatypes: Vec<Datatype>,
}

/// The kind of an argument: where it goes depends on it and on the width of counts.
#[derive(Clone, Copy)]
enum ContentsKind {
    /// An integer in both forms.
    Integer,
    /// A large count in the large form, an integer in the small one.
    Count,
    /// A large count in the large form, an address in the small one.
    Address,
}

impl Recipe {
    /// The constructor.
    pub fn combiner(&self) -> Combiner {
        match self {
            Recipe::Named { .. } => Combiner::Named,
            Recipe::Dup { .. } => Combiner::Dup,
            Recipe::Contiguous { .. } => Combiner::Contiguous,
            Recipe::Vector { .. } => Combiner::Vector,
            Recipe::Hvector { .. } => Combiner::Hvector,
            Recipe::Indexed { .. } => Combiner::Indexed,
            Recipe::Hindexed { .. } => Combiner::Hindexed,
            Recipe::IndexedBlock { .. } => Combiner::IndexedBlock,
            Recipe::HindexedBlock { .. } => Combiner::HindexedBlock,
            Recipe::Struct { .. } => Combiner::Struct,
            Recipe::Subarray { .. } => Combiner::Subarray,
            Recipe::Darray { .. } => Combiner::Darray,
            Recipe::F90Real { .. } => Combiner::F90Real,
            Recipe::F90Complex { .. } => Combiner::F90Complex,
            Recipe::F90Integer { .. } => Combiner::F90Integer,
            Recipe::Resized { .. } => Combiner::Resized,
            Recipe::ValueIndex { .. } => Combiner::ValueIndex,
        }
    }

    /// The arguments, laid out as the calls with these counts return them. None if one is too large for an `int`. A
    /// type that was constructed with small counts has the small form in both calls.
    pub fn contents(&self, counts: Counts) -> Option<Contents> {
        let mut contents = Contents::default();
        let mut fits = true;
        self.each_argument(&mut |sort, value| match (sort, counts) {
            (ContentsKind::Count | ContentsKind::Address, Counts::Large) => {
                contents.large_counts.push(value)
            }
            (ContentsKind::Address, Counts::Small) => contents.addresses.push(value),
            (ContentsKind::Integer, _) | (ContentsKind::Count, Counts::Small) => {
                match i32::try_from(value) {
                    Ok(value) => contents.integers.push(value),
                    Err(_) => fits = false,
                }
            }
        });
        contents.datatypes = self.datatypes();
        fits.then_some(contents)
    }

    /// The types that it was constructed from.
    pub fn datatypes(&self) -> Vec<Datatype> {
        match self {
            Recipe::Named { .. }
            | Recipe::F90Real { .. }
            | Recipe::F90Complex { .. }
            | Recipe::F90Integer { .. } => Vec::new(),
            Recipe::Struct { of, .. } => of.to_vec(),
            Recipe::ValueIndex { value, index } => vec![value.clone(), index.clone()],
            Recipe::Dup { of }
            | Recipe::Contiguous { of, .. }
            | Recipe::Vector { of, .. }
            | Recipe::Hvector { of, .. }
            | Recipe::Indexed { of, .. }
            | Recipe::Hindexed { of, .. }
            | Recipe::IndexedBlock { of, .. }
            | Recipe::HindexedBlock { of, .. }
            | Recipe::Subarray { of, .. }
            | Recipe::Darray { of, .. }
            | Recipe::Resized { of, .. } => vec![of.clone()],
        }
    }

    /// Calls `f` for each number among the arguments, in the standard's order.
    fn each_argument(&self, f: &mut impl FnMut(ContentsKind, i64)) {
        let length = |list: &[i64]| i64::try_from(list.len()).unwrap_or(i64::MAX);
        let mut all =
            |sort: ContentsKind, list: &[i64]| list.iter().for_each(|&value| f(sort, value));
        match self {
            Recipe::Named { .. } | Recipe::Dup { .. } | Recipe::ValueIndex { .. } => {}
            Recipe::Contiguous { count, .. } => all(ContentsKind::Count, &[*count]),
            Recipe::Vector { count, blocklength, stride, .. } => {
                all(ContentsKind::Count, &[*count, *blocklength, *stride]);
            }
            Recipe::Hvector { count, blocklength, stride, .. } => {
                all(ContentsKind::Count, &[*count, *blocklength]);
                all(ContentsKind::Address, &[*stride]);
            }
            Recipe::Indexed { blocklengths, displacements, .. } => {
                all(ContentsKind::Count, &[length(blocklengths)]);
                all(ContentsKind::Count, blocklengths);
                all(ContentsKind::Count, displacements);
            }
            Recipe::Hindexed { blocklengths, displacements, .. }
            | Recipe::Struct { blocklengths, displacements, .. } => {
                all(ContentsKind::Count, &[length(blocklengths)]);
                all(ContentsKind::Count, blocklengths);
                all(ContentsKind::Address, displacements);
            }
            Recipe::IndexedBlock { blocklength, displacements, .. } => {
                all(ContentsKind::Count, &[length(displacements), *blocklength]);
                all(ContentsKind::Count, displacements);
            }
            Recipe::HindexedBlock { blocklength, displacements, .. } => {
                all(ContentsKind::Count, &[length(displacements), *blocklength]);
                all(ContentsKind::Address, displacements);
            }
            Recipe::Subarray { sizes, subsizes, starts, order, .. } => {
                all(ContentsKind::Integer, &[length(sizes)]);
                [sizes, subsizes, starts]
                    .into_iter()
                    .for_each(|list| all(ContentsKind::Count, list));
                all(ContentsKind::Integer, &[*order as i64]);
            }
            Recipe::Darray { size, rank, dimensions, order, .. } => {
                let count = i64::try_from(dimensions.len()).unwrap_or(i64::MAX);
                all(ContentsKind::Integer, &[i64::from(*size), i64::from(*rank), count]);
                let sizes = dimensions.iter().map(|dimension| dimension.size);
                all(ContentsKind::Count, &sizes.collect::<Vec<_>>());
                let column = |of: fn(&Dimension) -> i64| dimensions.iter().map(of).collect();
                let columns: [Vec<i64>; 3] = [
                    column(|dimension| dimension.distribution as i64),
                    column(|dimension| i64::from(dimension.block.unwrap_or(DEFAULT_BLOCK))),
                    column(|dimension| i64::from(dimension.processes)),
                ];
                columns.iter().for_each(|column| all(ContentsKind::Integer, column));
                all(ContentsKind::Integer, &[*order as i64]);
            }
            Recipe::F90Real { precision, range } | Recipe::F90Complex { precision, range } => {
                let known = |number: &Option<i32>| i64::from(number.unwrap_or(UNDEFINED));
                all(ContentsKind::Integer, &[known(precision), known(range)]);
            }
            Recipe::F90Integer { range } => all(ContentsKind::Integer, &[i64::from(*range)]),
            Recipe::Resized { lower, extent, .. } => all(ContentsKind::Address, &[*lower, *extent]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Integers and addresses of the small form; integers and large counts of the large one.
    fn forms(datatype: &Datatype) -> [(Vec<i32>, Vec<i64>); 2] {
        let form = |counts| datatype.recipe().contents(counts).expect("small numbers");
        let (small, large) = (form(Counts::Small), form(Counts::Large));
        [(small.integers, small.addresses), (large.integers, large.large_counts)]
    }

    #[test]
    fn arguments_come_back_in_the_order_of_the_standard() {
        let int = Datatype::by_name("MPI_INT").expect("it is predefined");
        let made = |made: Result<Datatype, _>| forms(&made.expect("it makes sense"));
        assert_eq!(made(int.vector(2, 3, 4)), [(vec![2, 3, 4], vec![]), (vec![], vec![2, 3, 4])]);
        assert_eq!(made(int.hvector(2, 3, 9)), [(vec![2, 3], vec![9]), (vec![], vec![2, 3, 9])]);
        assert_eq!(
            made(int.hindexed(&[1, 2], &[30, 40])),
            [(vec![2, 1, 2], vec![30, 40]), (vec![], vec![2, 1, 2, 30, 40])],
        );
        assert_eq!(
            made(int.indexed_block(5, &[7, 9])),
            [(vec![2, 5, 7, 9], vec![]), (vec![], vec![2, 5, 7, 9])],
        );
        assert_eq!(
            made(int.subarray(&[4, 5], &[2, 3], &[1, 2], Order::Fortran)),
            [(vec![2, 4, 5, 2, 3, 1, 2, 15], vec![]), (vec![2, 15], vec![4, 5, 2, 3, 1, 2])],
        );
        let dimensions = [
            Dimension { size: 8, distribution: Distribution::Cyclic, block: Some(2), processes: 3 },
            Dimension { size: 9, distribution: Distribution::Block, block: None, processes: 2 },
        ];
        assert_eq!(
            made(int.darray(6, 4, &dimensions, Order::C)),
            [
                (vec![6, 4, 2, 8, 9, 18, 17, 2, 19, 3, 2, 12], vec![]),
                (vec![6, 4, 2, 18, 17, 2, 19, 3, 2, 12], vec![8, 9]),
            ],
        );
        assert_eq!(made(int.resized(-4, 12)), [(vec![], vec![-4, 12]), (vec![], vec![-4, 12])]);
        let real = [(vec![6, UNDEFINED], vec![]), (vec![6, UNDEFINED], vec![])];
        assert_eq!(made(Datatype::f90_real(Some(6), None)), real);
        assert_eq!(forms(&int), [(vec![], vec![]), (vec![], vec![])]);
    }

    #[test]
    fn large_counts_need_the_large_form() {
        let byte = Datatype::by_name("MPI_BYTE").expect("it is predefined");
        let large = byte.contiguous(1 << 40).expect("it makes sense").with_large_counts();
        assert_eq!(large.counts(), Counts::Large);
        assert!(large.recipe().contents(Counts::Small).is_none());
        let contents = large.recipe().contents(Counts::Large).expect("it fits");
        assert_eq!(contents.large_counts, [1 << 40]);
        // A type constructed from it keeps that information.
        let of = large.dup().recipe().datatypes();
        assert_eq!(of[0].counts(), Counts::Large);
        assert_eq!(byte.with_large_counts().counts(), Counts::Small);
    }
}
