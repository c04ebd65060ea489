//! Where threads shall run, and whether that can be.

use std::fmt;

use super::{CoreId, CoreSet, Machine, PlacementError, PlacementWarning};

/// On which cores the engine's threads run. The default places nobody.
///
/// Nothing is chosen by the engine: cores that are not named here are the system's to choose.
///
/// ```
/// # use tollgate::placement::{CoreId, Machine, Placement, Roles};
/// let placement = Placement {
///     ingress: vec![CoreId(1), CoreId(2)],
///     ..Placement::default()
/// };
/// let roles = Roles { ingress_shards: 1, ..Roles::default() };
/// let errors = placement.check(&Machine::default(), roles);
/// assert_eq!(errors.len(), 1);
/// assert_eq!(errors[0].to_string(), "too many ingress cores: 2 given, 1 shards");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The core of the arbiter's thread. Default: none, not placed, because which core is free of
    /// other work is for the operator to know.
    pub arbiter: Option<CoreId>,
    /// The cores of the embedder's ingress threads, by shard; at most as many as there are ingress
    /// shards. Shards without an entry are not placed. Default: empty.
    pub ingress: Vec<CoreId>,
    /// The cores of the embedder's egress threads, by shard; at most as many as there are egress
    /// shards. Shards without an entry are not placed. Default: empty.
    pub egress: Vec<CoreId>,
    /// Whether two threads that spin may be on one core. Default: false, because each would wait
    /// out the time slices of the other, milliseconds instead of nanoseconds.
    pub share_cores: bool,
    /// What happens if a thread cannot be pinned to its core. Default: [`IfUnpinnable::Fail`].
    pub if_unpinnable: IfUnpinnable,
}

/// What happens if a thread cannot be pinned to the core that is given for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfUnpinnable {
    /// It is an error, and nothing starts. The default: an engine that is believed to be pinned
    /// and is not has latencies that nobody can explain.
    #[default]
    Fail,
    /// It is a warning; the thread runs where the system puts it, and the [`Pinning`] says so.
    ///
    /// [`Pinning`]: super::Pinning
    RunUnpinned,
}

/// A thread with a part to play.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The engine's own thread, which arbitrates.
    Arbiter,
    /// The embedder's thread of this ingress shard, from 0.
    Ingress(usize),
    /// The embedder's thread of this egress shard, from 0.
    Egress(usize),
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arbiter => f.write_str("arbiter"),
            Self::Ingress(shard) => write!(f, "ingress shard {shard}"),
            Self::Egress(shard) => write!(f, "egress shard {shard}"),
        }
    }
}

/// Which threads there are, and which of them spin: poll without ever sleeping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// Whether the arbiter's thread spins.
    pub arbiter_spins: bool,
    /// How many ingress shards there are.
    pub ingress_shards: usize,
    /// Whether their threads spin.
    pub ingress_spins: bool,
    /// How many egress shards there are.
    pub egress_shards: usize,
    /// Whether their threads spin.
    pub egress_spins: bool,
}

impl Roles {
    fn spins(self, role: Role) -> bool {
        match role {
            Role::Arbiter => self.arbiter_spins,
            Role::Ingress(_) => self.ingress_spins,
            Role::Egress(_) => self.egress_spins,
        }
    }
}

impl Placement {
    /// The core that is given for a role; none if it is not placed.
    ///
    /// ```
    /// # use tollgate::placement::{CoreId, Placement, Role};
    /// let placement = Placement { egress: vec![CoreId(3)], ..Placement::default() };
    /// assert_eq!(placement.core_of(Role::Egress(0)), Some(CoreId(3)));
    /// assert_eq!(placement.core_of(Role::Egress(1)), None);
    /// ```
    #[must_use]
    pub fn core_of(&self, role: Role) -> Option<CoreId> {
        match role {
            Role::Arbiter => self.arbiter,
            Role::Ingress(shard) => self.ingress.get(shard).copied(),
            Role::Egress(shard) => self.egress.get(shard).copied(),
        }
    }

    /// Everything that is wrong with this placement on a machine: first the numbers of cores, then
    /// the cores by role, then cores given twice. Empty if nothing is.
    ///
    /// With [`IfUnpinnable::RunUnpinned`], cores that cannot be had are warnings instead. What the
    /// machine does not tell is not objected to. Quadratic in the number of roles.
    ///
    /// ```
    /// # use std::path::Path;
    /// # use tollgate::placement::{CoreId, Machine, Placement, Roles};
    /// let machine = Machine::from_sysfs(Path::new("no such place"), "2,5".parse().ok());
    /// let placement = Placement { arbiter: Some(CoreId(0)), ..Placement::default() };
    /// let errors = placement.check(&machine, Roles::default());
    /// assert_eq!(errors[0].to_string(), "arbiter: core 0 is outside the mask 2,5 of this process");
    /// ```
    #[must_use]
    pub fn check(&self, machine: &Machine, roles: Roles) -> Vec<PlacementError> {
        let mut errors = Vec::new();
        let (given, shards) = (self.ingress.len(), roles.ingress_shards);
        if given > shards {
            errors.push(PlacementError::TooManyIngressCores { given, shards });
        }
        let (given, shards) = (self.egress.len(), roles.egress_shards);
        if given > shards {
            errors.push(PlacementError::TooManyEgressCores { given, shards });
        }
        if self.if_unpinnable == IfUnpinnable::Fail {
            errors.extend(self.unpinnable(machine));
        }
        if !self.share_cores {
            let shared = self.spinning_pairs(roles, |first, second| first == second);
            errors.extend(shared.into_iter().map(|((first, core), (second, _))| {
                PlacementError::SharedCore {
                    core,
                    first,
                    second,
                }
            }));
        }
        errors
    }

    /// What is legal in this placement on a machine and may cost time. Empty if nothing is.
    ///
    /// What the machine does not tell is not warned of. Quadratic in the number of roles.
    ///
    /// ```
    /// # use std::path::Path;
    /// # use tollgate::placement::{CoreId, Machine, Placement, Roles};
    /// let machine = Machine::from_sysfs(Path::new("no such place"), "0-2".parse().ok());
    /// let placement = Placement { arbiter: Some(CoreId(0)), ..Placement::default() };
    /// let warnings = placement.warnings(&machine, Roles::default());
    /// assert_eq!(
    ///     warnings[0].to_string(),
    ///     "the arbiter is on core 0, which often serves interrupts; cores 1-2 are free"
    /// );
    /// ```
    #[must_use]
    pub fn warnings(&self, machine: &Machine, roles: Roles) -> Vec<PlacementWarning> {
        let mut warnings = Vec::new();
        if self.if_unpinnable == IfUnpinnable::RunUnpinned {
            let unpinnable = self.unpinnable(machine);
            warnings.extend(unpinnable.into_iter().map(PlacementWarning::RunsUnpinned));
        }
        if let (Some(mask), Some(pinnable)) = (machine.allowed(), machine.pinnable()) {
            let hidden = machine.hidden().difference(&pinnable);
            if !hidden.is_empty() {
                let mask = mask.clone();
                warnings.push(PlacementWarning::HiddenCores { hidden, mask });
            }
        }
        let are_siblings = |first: CoreId, second: CoreId| {
            let siblings = machine.siblings_of(first);
            first != second && siblings.is_some_and(|cores| cores.contains(second))
        };
        let siblings = self.spinning_pairs(roles, are_siblings).into_iter();
        warnings
            .extend(siblings.map(|(first, second)| PlacementWarning::Siblings { first, second }));
        if let Some(core) = self.arbiter {
            warnings.extend(self.arbiter_warnings(core, machine));
        }
        warnings
    }

    /// Better cores for the arbiter than the one given.
    fn arbiter_warnings(&self, core: CoreId, machine: &Machine) -> Vec<PlacementWarning> {
        let mut warnings = Vec::new();
        let Some(pinnable) = machine.pinnable() else {
            return warnings;
        };
        if let Some(isolated) = machine.isolated() {
            let within_reach = isolated.intersection(&pinnable);
            if !isolated.contains(core) && !within_reach.is_empty() {
                let isolated = within_reach;
                warnings.push(PlacementWarning::NotIsolated { core, isolated });
            }
        }
        let placed: CoreSet = self.placed().map(|(_, core)| core).collect();
        let free = pinnable.difference(&placed);
        if core == CoreId(0) && !free.is_empty() {
            warnings.push(PlacementWarning::CoreZero { free });
        }
        warnings
    }

    /// The roles that a core is given for, with it.
    fn placed(&self) -> impl Iterator<Item = (Role, CoreId)> {
        let arbiter = self.arbiter.map(|core| (Role::Arbiter, core));
        let ingress = self.ingress.iter().enumerate();
        let egress = self.egress.iter().enumerate();
        let shards = ingress
            .map(|(shard, &core)| (Role::Ingress(shard), core))
            .chain(egress.map(|(shard, &core)| (Role::Egress(shard), core)));
        arbiter.into_iter().chain(shards)
    }

    /// The roles whose core does not exist or is out of reach.
    fn unpinnable(&self, machine: &Machine) -> Vec<PlacementError> {
        let existing = machine.online().map(|_| machine.existing());
        let pinnable = machine.pinnable();
        let judge = |(role, core)| {
            if let Some(existing) = existing.as_ref().filter(|cores| !cores.contains(core)) {
                let existing = existing.clone();
                return Some(PlacementError::NoSuchCore {
                    role,
                    core,
                    existing,
                });
            }
            let is_pinnable = pinnable.as_ref().is_none_or(|cores| cores.contains(core));
            let mask = machine.allowed().filter(|_| !is_pinnable)?.clone();
            Some(PlacementError::OutsideMask { role, core, mask })
        };
        self.placed().filter_map(judge).collect()
    }

    /// Each spinning role with the first before it whose core stands in a relation to its own.
    fn spinning_pairs(
        &self,
        roles: Roles,
        is_related: impl Fn(CoreId, CoreId) -> bool,
    ) -> Vec<((Role, CoreId), (Role, CoreId))> {
        let spinning: Vec<_> = self
            .placed()
            .filter(|&(role, _)| roles.spins(role))
            .collect();
        let mut pairs = Vec::new();
        for (index, &second) in spinning.iter().enumerate() {
            let mut earlier = spinning[..index].iter();
            if let Some(&first) = earlier.find(|first| is_related(first.1, second.1)) {
                pairs.push((first, second));
            }
        }
        pairs
    }
}
