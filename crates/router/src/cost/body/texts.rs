//! What a prompt says.

/// The texts of a prompt, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    all: String,
    /// Where each of them ends.
    ends: Vec<usize>,
}

impl Texts {
    /// All that are not empty, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, end)| &self.all[start..*end])
    }

    /// Adds to the last text.
    pub(super) fn piece(&mut self, piece: &str) {
        self.all.push_str(piece);
    }

    /// Ends the last text. Empty ones, of which a body may have millions, take no room.
    pub(super) fn end(&mut self) {
        if self.ends.last().copied().unwrap_or_default() < self.all.len() {
            self.ends.push(self.all.len());
        }
    }
}
