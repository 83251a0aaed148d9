//! Whom a tool tells how far it is.

pub(super) struct Progress<R>(Option<Listener<R>>);

type Listener<R> = Box<dyn FnMut(&R) + Send>;

impl<R> Progress<R> {
    pub(super) fn none() -> Self {
        Self(None)
    }

    pub(super) fn to(listener: impl FnMut(&R) + Send + 'static) -> Self {
        Self(Some(Box::new(listener)))
    }

    pub(super) fn tell(&mut self, report: &R) {
        if let Some(listener) = &mut self.0 {
            listener(report);
        }
    }
}
