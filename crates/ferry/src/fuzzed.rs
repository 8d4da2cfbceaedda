//! The part of this program that fuzz targets take in, since there is no library to link with: the launcher.

pub(crate) mod home;
pub(crate) mod out;
pub(crate) mod run;
