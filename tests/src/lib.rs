//! Empty: the package consists of tests.
