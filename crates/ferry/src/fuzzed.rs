//! The modules of this program that fuzz targets include by path, since it has no library to link with: the launcher.

pub(crate) mod home;
pub(crate) mod job_facts;
pub(crate) mod out;
pub(crate) mod run;
pub(crate) mod trace;
pub(crate) mod why;
