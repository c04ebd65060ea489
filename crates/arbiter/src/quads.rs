//! Where nodes stand in the winner trees of this crate.
//!
//! A tree has four children to a node and is numbered by level from its top: the children of node n
//! are 4n + 1 to 4n + 4. Node n stands at place n + 3, four places make a quad, so that all siblings
//! share one, and a step up reads one cache line. Each place holds its node's winner itself, not where
//! to find it.

/// The shape of all trees of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Quads of one tree.
    pub(crate) quads: usize,
    /// The place of the lowest node that spans all leaves that were ever used.
    pub(crate) root: usize,
    /// How many leaves it spans.
    pub(crate) span: usize,
    /// The place of leaf 0.
    first_leaf: usize,
}

impl Shape {
    /// Trees for so many leaves, which span one of them at first.
    pub(crate) const fn new(most_leaves: usize) -> Self {
        let mut leaves = 1;
        let mut first_leaf = 3;
        while leaves < most_leaves {
            leaves *= 4;
            first_leaf = children(first_leaf);
        }
        Self {
            quads: (first_leaf + leaves).div_ceil(4),
            root: first_leaf,
            span: 1,
            first_leaf,
        }
    }

    /// Trees that span all their leaves from the start.
    pub(crate) const fn spanning(leaves: usize) -> Self {
        let mut shape = Self::new(leaves);
        while shape.root > 3 {
            shape.widen();
        }
        shape
    }

    /// Moves the root one level up. Its first child is the root of before.
    pub(crate) const fn widen(&mut self) {
        self.root = above(self.root);
        self.span *= 4;
    }

    /// The place of a leaf.
    #[inline]
    pub(crate) const fn leaf(&self, leaf: usize) -> usize {
        self.first_leaf + leaf
    }

    /// The places of the inner nodes that the root spans, lower ones first.
    pub(crate) fn inner(self) -> impl Iterator<Item = usize> {
        let (mut first, mut count) = (self.first_leaf, self.span);
        std::iter::from_fn(move || {
            first = above(first);
            count /= 4;
            (count > 0).then_some(first..first + count)
        })
        .flatten()
    }
}

/// The place of the parent.
#[inline]
pub(crate) const fn above(place: usize) -> usize {
    place / 4 + 2
}

/// The place of the first child: the start of a quad.
#[inline]
pub(crate) const fn children(place: usize) -> usize {
    4 * (place - 2)
}

#[cfg(test)]
mod tests {
    use super::{Shape, above, children};

    #[test]
    fn children_share_a_quad_and_know_their_parent() {
        for leaves in [1, 2, 4, 5, 64, 65, 300] {
            let shape = Shape::spanning(leaves);
            assert!(shape.root == 3 && shape.span >= leaves);
            let mut count = 0;
            for place in shape.inner() {
                count += 1;
                for child in 0..4 {
                    assert_eq!(above(children(place) + child), place);
                }
                assert_eq!(children(place) % 4, 0);
            }
            assert_eq!(count, (shape.span - 1) / 3, "each inner node once");
            assert_eq!(shape.quads, shape.leaf(shape.span - 1) / 4 + 1);
        }
    }
}
