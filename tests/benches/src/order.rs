//! The payload: about 95 bytes of JSON.

use serde::{Deserialize, Serialize};

/// The stream that everything goes over.
pub const STREAM: &str = "orders";
/// The group that reads it.
pub const GROUP: &str = "bench";

/// A small order, as a shop would send it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// From 0, without gaps.
    pub id: u64,
    /// Who ordered.
    pub name: String,
    /// Where the bill goes.
    pub email: String,
    /// What it costs.
    pub amount: f64,
    /// What it is about.
    pub tags: Vec<String>,
}

impl Order {
    /// The order of this number.
    #[must_use]
    pub fn new(id: u64) -> Self {
        Self {
            id,
            name: format!("order-{id}"),
            email: format!("user{id}@example.com"),
            amount: 12.5,
            tags: vec!["a".to_owned(), "b".to_owned()],
        }
    }
}
