//! Categories of variables and events. The first contains the others.

use std::ffi::c_int;

use super::control::CONTROLS;
use super::event::EVENTS;
use super::performance::VARIABLES;
use super::{error, index_of, int, item, name_of, put_text, told};
use crate::calls::entry::answers;
use crate::convert::constants::MPI_T_ERR_INVALID;
use crate::convert::failure::Result;
use crate::convert::pointer::{Out, Text, TextOut};

/// A category.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Category {
    /// All categories.
    Everything,
    /// Limits of the NIC.
    Limits,
    /// Messages and receives.
    Matching,
    /// Frames.
    Traffic,
    /// Turns of the NIC.
    Driving,
}

const CATEGORIES: &[(Category, &str, &str)] = &[
    (Category::Everything, "ferrywire", "All variables and events of the library."),
    (Category::Limits, "ferrywire_limits", "The limits of the NIC."),
    (Category::Matching, "ferrywire_matching", "Messages and receives that wait for each other."),
    (Category::Traffic, "ferrywire_traffic", "Traffic to and from other ranks."),
    (Category::Driving, "ferrywire_driving", "How often the program and the agent turn the NIC."),
];

impl Category {
    fn controls(self) -> Vec<c_int> {
        if self == Category::Limits { (0..int(CONTROLS.len())).collect() } else { Vec::new() }
    }

    fn variables(self) -> Vec<c_int> {
        let all = VARIABLES.iter().enumerate();
        all.filter(|(_, it)| it.category == self).map(|(at, _)| int(at)).collect()
    }

    fn events(self) -> Vec<c_int> {
        let all = EVENTS.iter().enumerate();
        all.filter(|(_, it)| it.category == self).map(|(at, _)| int(at)).collect()
    }

    fn categories(self) -> Vec<c_int> {
        match self {
            Category::Everything => (1..int(CATEGORIES.len())).collect(),
            _ => Vec::new(),
        }
    }
}

fn find(index: c_int) -> Result<Category> {
    item(CATEGORIES, index).map(|(category, ..)| *category)
}

/// Writes as many indices as there is room for.
fn put(indices: &[c_int], len: c_int, into: Out<c_int>) -> Result {
    let room = usize::try_from(len).map_err(|_| error(MPI_T_ERR_INVALID))?;
    indices.iter().take(room).enumerate().try_for_each(|(at, &index)| into.at(at).put(index))
}

answers! {
    fn MPI_T_category_get_num(num_cat: Out<c_int>) -> c_int {
        told(|| num_cat.put(int(CATEGORIES.len())))
    }

    fn MPI_T_category_get_info(
        cat_index: c_int, name: TextOut, name_len: Out<c_int>, desc: TextOut, desc_len: Out<c_int>,
        num_cvars: Out<c_int>, num_pvars: Out<c_int>, num_categories: Out<c_int>,
    ) -> c_int {
        told(|| {
            let &(category, its_name, text) = item(CATEGORIES, cat_index)?;
            put_text(its_name, name, name_len)?;
            put_text(text, desc, desc_len)?;
            num_cvars.put_if_wanted(int(category.controls().len()));
            num_pvars.put_if_wanted(int(category.variables().len()));
            num_categories.put_if_wanted(int(category.categories().len()));
            Ok(())
        })
    }

    fn MPI_T_category_get_index(name: Text, cat_index: Out<c_int>) -> c_int {
        told(|| {
            let name = name_of(name)?;
            cat_index.put(index_of(CATEGORIES, |(_, its_name, _)| *its_name == name)?)
        })
    }

    fn MPI_T_category_get_num_events(cat_index: c_int, num_events: Out<c_int>) -> c_int {
        told(|| num_events.put(int(find(cat_index)?.events().len())))
    }

    fn MPI_T_category_get_cvars(cat_index: c_int, len: c_int, indices: Out<c_int>) -> c_int {
        told(|| put(&find(cat_index)?.controls(), len, indices))
    }

    fn MPI_T_category_get_pvars(cat_index: c_int, len: c_int, indices: Out<c_int>) -> c_int {
        told(|| put(&find(cat_index)?.variables(), len, indices))
    }

    fn MPI_T_category_get_events(cat_index: c_int, len: c_int, indices: Out<c_int>) -> c_int {
        told(|| put(&find(cat_index)?.events(), len, indices))
    }

    fn MPI_T_category_get_categories(cat_index: c_int, len: c_int, indices: Out<c_int>) -> c_int {
        told(|| put(&find(cat_index)?.categories(), len, indices))
    }

    fn MPI_T_category_changed(update_number: Out<c_int>) -> c_int {
        // Categories never change.
        told(|| update_number.put(0))
    }
}
