//! The fields of an entry: bytes, in order, duplicates and all.

use std::fmt;

use smallvec::SmallVec;

/// The fields of an entry, in order. Names and values are bytes: Redis does not ask for UTF-8.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Fields(SmallVec<[Field; 1]>);

/// A name and a value. Most entries have one field, which is then kept in place.
type Field = (Vec<u8>, Vec<u8>);

impl Fields {
    /// The value of the first field of this name.
    #[must_use]
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        let name = name.as_ref();
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_slice())
    }

    /// The value of the first field of this name, where it is UTF-8.
    ///
    /// ```
    /// let msg = rillkit::Message::detached("jobs-dlq", "support", 1, [("x-error", "bad input")]);
    /// assert_eq!(msg.fields().text("x-error"), Some("bad input"));
    /// ```
    #[must_use]
    pub fn text(&self, name: impl AsRef<[u8]>) -> Option<&str> {
        std::str::from_utf8(self.get(name)?).ok()
    }

    /// All fields in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + '_ {
        self.0
            .iter()
            .map(|(name, value)| (name.as_slice(), value.as_slice()))
    }

    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of all names and values.
    pub(crate) fn bytes(&self) -> usize {
        self.0
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum()
    }

    /// The same with another value of the last one.
    pub(crate) fn with_last(&self, value: impl FnOnce(&[u8]) -> Vec<u8>) -> Self {
        let mut fields = self.clone();
        if let Some((_, last)) = fields.0.last_mut() {
            *last = value(last);
        }
        fields
    }

    /// Sets the first field of this name, or adds it where there is none.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<Vec<u8>>) {
        match self
            .0
            .iter_mut()
            .find(|(known, _)| known == name.as_bytes())
        {
            Some((_, known)) => *known = value.into(),
            None => self.push(name, value),
        }
    }

    pub(crate) fn push(&mut self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.0.push((name.into(), value.into()));
    }
}

impl FromIterator<(Vec<u8>, Vec<u8>)> for Fields {
    fn from_iter<I: IntoIterator<Item = (Vec<u8>, Vec<u8>)>>(fields: I) -> Self {
        Self(fields.into_iter().collect())
    }
}

/// The names alone: values are what users must not find in a log.
impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| String::from_utf8_lossy(name)))
            .finish()
    }
}
