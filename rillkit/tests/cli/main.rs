//! The program `rillkit` against a real server: what it prints, what it changes, and how it ends.

mod check;
mod cluster;
mod delayed;
mod dlq;
mod ends;
mod looks;
mod publish;
mod scene;
mod tail;
mod trim;
