//! Which cores exist, how they hang together, and which of them this process may use.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{CoreId, CoreSet, system};

/// Where Linux describes its cores.
const SYSFS: &str = "/sys/devices/system/cpu";

/// The cores of a machine, as found at one moment. What the system does not tell is unknown; of the
/// default machine everything is.
///
/// ```
/// # use tollgate::placement::Machine;
/// let machine = Machine::read();
/// if let (Some(online), Some(allowed)) = (machine.online(), machine.allowed()) {
///     assert!(allowed.iter().any(|core| online.contains(core)));
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    allowed: Option<CoreSet>,
    online: Option<CoreSet>,
    isolated: Option<CoreSet>,
    nohz_full: Option<CoreSet>,
    siblings: BTreeMap<CoreId, CoreSet>,
    packages: BTreeMap<CoreId, u32>,
}

impl Machine {
    /// Looks at this machine, and at the calling thread's mask.
    ///
    /// A thread inherits the mask of the one that started it, so that on a thread that nobody pinned
    /// this is the process's mask. Reads up to three files for each core: a call for the start of a
    /// process.
    ///
    /// On systems other than Linux only the cores that the process may use are known.
    #[must_use]
    pub fn read() -> Self {
        Self::from_sysfs(Path::new(SYSFS), system::mask())
    }

    /// The machine that a directory describes in the manner of Linux's `/sys/devices/system/cpu`,
    /// with a given mask: for tests, and for machines seen from elsewhere.
    ///
    /// Files that are missing or hold something else leave what they would tell unknown.
    ///
    /// ```
    /// # use std::path::Path;
    /// # use tollgate::placement::{CoreId, Machine};
    /// let machine = Machine::from_sysfs(Path::new("no such place"), "2,5".parse().ok());
    /// assert_eq!(machine.online(), None);
    /// assert!(machine.allowed().is_some_and(|cores| cores.contains(CoreId(5))));
    /// ```
    #[must_use]
    pub fn from_sysfs(directory: &Path, allowed: Option<CoreSet>) -> Self {
        let mut machine = Self {
            allowed,
            online: read_cores(directory, "online"),
            isolated: read_cores(directory, "isolated"),
            nohz_full: read_cores(directory, "nohz_full"),
            ..Self::default()
        };
        for core in machine.existing().iter() {
            let topology = directory.join(format!("cpu{core}/topology"));
            // The second name is that of older kernels.
            let siblings = read_cores(&topology, "core_cpus_list")
                .or_else(|| read_cores(&topology, "thread_siblings_list"));
            if let Some(siblings) = siblings {
                machine.siblings.insert(core, siblings);
            }
            if let Some(package) = read_number(&topology, "physical_package_id") {
                machine.packages.insert(core, package);
            }
        }
        machine
    }

    /// The cores that are switched on.
    #[must_use]
    pub fn online(&self) -> Option<&CoreSet> {
        self.online.as_ref()
    }

    /// The cores that the calling thread's mask allowed.
    #[must_use]
    pub fn allowed(&self) -> Option<&CoreSet> {
        self.allowed.as_ref()
    }

    /// The cores that the kernel keeps other threads away from (`isolcpus`); may be empty.
    #[must_use]
    pub fn isolated(&self) -> Option<&CoreSet> {
        self.isolated.as_ref()
    }

    /// The cores without a timer interrupt while one thread runs (`nohz_full`); may be empty.
    #[must_use]
    pub fn nohz_full(&self) -> Option<&CoreSet> {
        self.nohz_full.as_ref()
    }

    /// The logical cores that share one physical core with the given one, itself included.
    #[must_use]
    pub fn siblings_of(&self, core: CoreId) -> Option<&CoreSet> {
        self.siblings.get(&core)
    }

    /// The package (socket) that a core is in, by the system's number.
    #[must_use]
    pub fn package_of(&self, core: CoreId) -> Option<u32> {
        self.packages.get(&core).copied()
    }

    /// The cores that are online and not allowed; empty if either is unknown.
    ///
    /// ```
    /// # use std::path::Path;
    /// # use tollgate::placement::Machine;
    /// let machine = Machine::from_sysfs(Path::new("no such place"), "2,5".parse().ok());
    /// assert!(machine.hidden().is_empty());
    /// ```
    #[must_use]
    pub fn hidden(&self) -> CoreSet {
        match (&self.online, &self.allowed) {
            (Some(online), Some(allowed)) => online.difference(allowed),
            _ => CoreSet::default(),
        }
    }

    /// The cores that a thread may be pinned to; unknown if the mask is.
    ///
    /// These are the allowed ones, and the isolated ones where nobody set a mask. The kernel starts
    /// every process with a mask of the cores that are not isolated, and an isolated core is of use
    /// only to threads that are pinned to it. So where the mask is exactly the online cores without
    /// the isolated ones, the isolated ones can be had too; any other mask was set on purpose.
    ///
    /// ```
    /// # use tollgate::placement::Machine;
    /// let machine = Machine::read();
    /// assert_eq!(machine.pinnable().is_some(), machine.allowed().is_some());
    /// ```
    #[must_use]
    pub fn pinnable(&self) -> Option<CoreSet> {
        let allowed = self.allowed.as_ref()?;
        let (Some(online), Some(isolated)) = (&self.online, &self.isolated) else {
            return Some(allowed.clone());
        };
        let is_as_booted = *allowed == online.difference(isolated);
        Some(if is_as_booted {
            online.clone()
        } else {
            allowed.clone()
        })
    }

    /// The cores that exist, as far as anything tells of them. A container may see a list of online
    /// cores that was made up, beside a mask with the true numbers.
    pub(super) fn existing(&self) -> CoreSet {
        let none = CoreSet::default();
        let online = self.online.as_ref().unwrap_or(&none);
        online.union(self.allowed.as_ref().unwrap_or(&none))
    }
}

fn read_cores(directory: &Path, file: &str) -> Option<CoreSet> {
    let text = fs::read_to_string(directory.join(file)).ok()?;
    text.parse().ok()
}

fn read_number(directory: &Path, file: &str) -> Option<u32> {
    let text = fs::read_to_string(directory.join(file)).ok()?;
    text.trim_end().parse().ok()
}
