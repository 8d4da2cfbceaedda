//! Nothing here: the tests are beside.
