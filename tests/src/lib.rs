//! Tests of RillKit through its public API.
