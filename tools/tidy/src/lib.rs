//! Repository rules of Tollgate, checked by the tests of this package.
