//! Which member to read. Pure.

use thiserror::Error;

/// What one member says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not one state")]
pub(crate) struct Facts {
    /// Member id.
    pub(crate) member: u64,
    /// It does not vote, and may be far behind.
    pub(crate) learner: bool,
    /// It raised a CORRUPT alarm.
    pub(crate) corrupt: bool,
    /// It knows a leader.
    pub(crate) has_leader: bool,
    /// It is the leader.
    pub(crate) is_leader: bool,
    /// Revision of its key space.
    pub(crate) revision: i64,
    /// Raft index that it has applied.
    pub(crate) applied: u64,
}

/// Why no member may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Refusal {
    /// Nobody answered at all.
    #[error("no member answered")]
    NobodyAnswered,
    /// Members answered, and none may be read.
    #[error(
        "none of the {answered} members that answered may be read: {learners} learners, {corrupt} with a CORRUPT alarm"
    )]
    NoneFit {
        /// Members that answered.
        answered: usize,
        /// Learners among them.
        learners: usize,
        /// Members with a CORRUPT alarm among them.
        corrupt: usize,
    },
}

/// The voter without a CORRUPT alarm that is furthest: one that knows a leader before one that does not, then by
/// revision and applied index, then a follower before the leader, which has enough to do.
///
/// # Errors
/// [`Refusal`].
pub(crate) fn source(members: &[Facts]) -> Result<usize, Refusal> {
    let best = members
        .iter()
        .enumerate()
        .filter(|(_, facts)| !facts.learner && !facts.corrupt)
        .max_by_key(|(_, facts)| (facts.has_leader, facts.revision, facts.applied, !facts.is_leader));
    match best {
        Some((index, _)) => Ok(index),
        None if members.is_empty() => Err(Refusal::NobodyAnswered),
        None => Err(Refusal::NoneFit {
            answered: members.len(),
            learners: members.iter().filter(|facts| facts.learner).count(),
            corrupt: members.iter().filter(|facts| facts.corrupt).count(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Facts = Facts {
        member: 1,
        learner: false,
        corrupt: false,
        has_leader: true,
        is_leader: false,
        revision: 10,
        applied: 20,
    };

    /// S4: of all members, whatever the address that was named.
    #[test]
    fn the_furthest_healthy_voter_is_read() {
        let learner = Facts { learner: true, revision: 99, ..GOOD };
        let corrupt = Facts { corrupt: true, revision: 99, ..GOOD };
        let stray = Facts { has_leader: false, revision: 50, ..GOOD };
        let ahead = Facts { revision: 11, is_leader: true, ..GOOD };
        assert_eq!(source(&[learner, corrupt, stray, GOOD, ahead]), Ok(4));
        assert_eq!(source(&[Facts { is_leader: true, ..GOOD }, GOOD]), Ok(1));
        assert_eq!(source(&[stray]), Ok(0));
    }

    #[test]
    fn learners_and_corrupt_members_are_never_read() {
        let learner = Facts { learner: true, ..GOOD };
        let corrupt = Facts { corrupt: true, ..GOOD };
        assert_eq!(source(&[learner, corrupt]), Err(Refusal::NoneFit { answered: 2, learners: 1, corrupt: 1 }));
        assert_eq!(source(&[]), Err(Refusal::NobodyAnswered));
    }
}
