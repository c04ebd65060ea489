//! Placement against described machines, and pins against the kernel that runs the tests.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use tollgate::placement::{
    CoreId, CoreSet, IfUnpinnable, Machine, Placement, PlacementError, PlacementWarning, Role,
    Roles,
};

/// Every thread spins; two ingress and two egress shards.
const ALL_SPIN: Roles = Roles {
    arbiter_spins: true,
    ingress_shards: 2,
    ingress_spins: true,
    egress_shards: 2,
    egress_spins: true,
};

fn cores(list: &str) -> CoreSet {
    list.parse().expect("a list of cores")
}

fn texts(findings: &[impl ToString]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

/// A directory with files of these names and contents.
fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for (name, content) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("created");
        fs::write(path, content).expect("written");
    }
    directory
}

fn machine(files: &[(&str, &str)], allowed: &str) -> Machine {
    Machine::from_sysfs(directory(files).path(), Some(cores(allowed)))
}

/// Eight cores on which nothing is special, all allowed.
fn plain() -> Machine {
    machine(&[("online", "0-7\n"), ("isolated", "\n")], "0-7")
}

#[test]
fn a_machine_is_read_from_the_kernels_files() {
    let files = [
        ("online", "0-3,8\n"),
        ("isolated", "2-3\n"),
        ("nohz_full", "3\n"),
        ("cpu0/topology/core_cpus_list", "0,8\n"),
        ("cpu0/topology/thread_siblings_list", "0-3\n"),
        ("cpu0/topology/physical_package_id", "0\n"),
        // A kernel that knows the older name alone, and no package.
        ("cpu8/topology/thread_siblings_list", "0,8\n"),
        ("cpu8/topology/physical_package_id", "-1\n"),
        // Not online, so that nobody asks.
        ("cpu9/topology/core_cpus_list", "9\n"),
    ];
    let machine = machine(&files, "0-1");
    assert_eq!(machine.online(), Some(&cores("0-3,8")));
    assert_eq!(machine.isolated(), Some(&cores("2-3")));
    assert_eq!(machine.nohz_full(), Some(&cores("3")));
    assert_eq!(machine.allowed(), Some(&cores("0-1")));
    assert_eq!(machine.hidden(), cores("2-3,8"));
    assert_eq!(machine.siblings_of(CoreId(0)), Some(&cores("0,8")));
    assert_eq!(machine.siblings_of(CoreId(8)), Some(&cores("0,8")));
    assert_eq!(machine.siblings_of(CoreId(1)), None);
    assert_eq!(machine.siblings_of(CoreId(9)), None);
    assert_eq!(machine.package_of(CoreId(0)), Some(0));
    assert_eq!(machine.package_of(CoreId(8)), None);
}

#[test]
fn what_is_missing_or_strange_is_unknown_and_no_error() {
    let nothing = Machine::from_sysfs(Path::new("no such place"), None);
    assert_eq!(nothing, Machine::default());
    let everywhere = Placement {
        arbiter: Some(CoreId(0)),
        ingress: vec![CoreId(900), CoreId(2)],
        ..Placement::default()
    };
    assert_eq!(everywhere.check(&nothing, ALL_SPIN), []);
    assert_eq!(everywhere.warnings(&nothing, ALL_SPIN), []);

    let files = [("online", "many"), ("nohz_full", "(null)\n")];
    let strange = machine(&files, "0");
    assert_eq!(strange.online(), None);
    assert_eq!(strange.nohz_full(), None);
    assert_eq!(strange.hidden(), CoreSet::default());
    assert_eq!(strange.pinnable(), Some(cores("0")));
}

/// The kernel starts processes outside the isolated cores, which is no wish of anybody's.
#[test]
fn isolated_cores_are_within_reach_unless_a_mask_was_set() {
    let files = [("online", "0-7\n"), ("isolated", "2-3,9\n")];
    for (allowed, pinnable) in [
        ("0-1,4-7", "0-7"),
        ("0-7", "0-7"),
        ("0-1,4-6", "0-1,4-6"),
        ("0-2,4-7", "0-2,4-7"),
        ("2", "2"),
    ] {
        let machine = machine(&files, allowed);
        assert_eq!(machine.pinnable(), Some(cores(pinnable)), "{allowed}");
    }
}

#[test]
fn a_good_placement_passes_in_silence() {
    let placement = Placement {
        arbiter: Some(CoreId(7)),
        ingress: vec![CoreId(1), CoreId(2)],
        egress: vec![CoreId(3)],
        ..Placement::default()
    };
    assert_eq!(placement.check(&plain(), ALL_SPIN), []);
    assert_eq!(placement.warnings(&plain(), ALL_SPIN), []);
    assert_eq!(Placement::default().check(&plain(), ALL_SPIN), []);
    assert_eq!(Placement::default().warnings(&plain(), ALL_SPIN), []);
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let placement = Placement {
        arbiter: Some(CoreId(8)),
        ingress: vec![CoreId(5), CoreId(2), CoreId(5)],
        egress: vec![CoreId(0), CoreId(2), CoreId(2)],
        ..Placement::default()
    };
    let machine = machine(&[("online", "0-3,5\n")], "2,5");
    let errors = placement.check(&machine, ALL_SPIN);
    assert_eq!(
        texts(&errors),
        [
            "too many ingress cores: 3 given, 2 shards",
            "too many egress cores: 3 given, 2 shards",
            "arbiter: core 8 does not exist, there are 0-3,5",
            "egress shard 0: core 0 is outside the mask 2,5 of this process",
            "ingress shard 0 and ingress shard 2 would both spin on core 5; share_cores permits it",
            "ingress shard 1 and egress shard 1 would both spin on core 2; share_cores permits it",
            "ingress shard 1 and egress shard 2 would both spin on core 2; share_cores permits it",
        ]
    );
    let (role, core) = (Role::Egress(0), CoreId(0));
    let mask = cores("2,5");
    assert_eq!(errors[3], PlacementError::OutsideMask { role, core, mask });
}

/// A container's list of online cores may be made up; its mask has the true numbers.
#[test]
fn a_core_of_the_mask_exists_whatever_the_list_says() {
    let machine = machine(&[("online", "0-1\n")], "16-17");
    let mut placement = Placement {
        arbiter: Some(CoreId(17)),
        ..Placement::default()
    };
    assert_eq!(placement.check(&machine, ALL_SPIN), []);
    placement.arbiter = Some(CoreId(18));
    assert_eq!(
        texts(&placement.check(&machine, ALL_SPIN)),
        ["arbiter: core 18 does not exist, there are 0-1,16-17"]
    );
}

#[test]
fn only_threads_that_spin_need_a_core_of_their_own() {
    let mut placement = Placement {
        arbiter: Some(CoreId(1)),
        ingress: vec![CoreId(1)],
        egress: vec![CoreId(2), CoreId(2)],
        ..Placement::default()
    };
    let shared = |placement: &Placement, roles| placement.check(&plain(), roles).len();
    assert_eq!(shared(&placement, ALL_SPIN), 2);
    let mut roles = ALL_SPIN;
    roles.egress_spins = false;
    assert_eq!(shared(&placement, roles), 1);
    roles.ingress_spins = false;
    assert_eq!(shared(&placement, roles), 0);
    roles = ALL_SPIN;
    roles.arbiter_spins = false;
    assert_eq!(shared(&placement, roles), 1);
    placement.share_cores = true;
    assert_eq!(shared(&placement, ALL_SPIN), 0);
}

#[test]
fn to_run_unpinned_makes_warnings_of_cores_out_of_reach_alone() {
    let placement = Placement {
        arbiter: Some(CoreId(8)),
        ingress: vec![CoreId(1), CoreId(1), CoreId(5)],
        if_unpinnable: IfUnpinnable::RunUnpinned,
        ..Placement::default()
    };
    let machine = machine(&[("online", "0-5\n")], "0-4");
    assert_eq!(
        texts(&placement.check(&machine, ALL_SPIN)),
        [
            "too many ingress cores: 3 given, 2 shards",
            "ingress shard 0 and ingress shard 1 would both spin on core 1; share_cores permits it",
        ]
    );
    assert_eq!(
        texts(&placement.warnings(&machine, ALL_SPIN)),
        [
            "arbiter: core 8 does not exist, there are 0-5: it will run unpinned",
            "ingress shard 2: core 5 is outside the mask 0-4 of this process: it will run unpinned",
            "the mask 0-4 of this process hides cores 5",
        ]
    );
}

#[test]
fn a_mask_that_hides_cores_is_warned_of_and_isolation_is_not() {
    let files = [("online", "0-7\n"), ("isolated", "6-7\n")];
    let nobody = Placement::default();
    let narrowed = nobody.warnings(&machine(&files, "0-3"), ALL_SPIN);
    let (hidden, mask) = (cores("4-7"), cores("0-3"));
    assert_eq!(narrowed, [PlacementWarning::HiddenCores { hidden, mask }]);
    assert_eq!(
        narrowed[0].to_string(),
        "the mask 0-3 of this process hides cores 4-7"
    );
    assert_eq!(nobody.warnings(&machine(&files, "0-5"), ALL_SPIN), []);
}

#[test]
fn spinning_on_one_physical_core_is_warned_of() {
    let files = [
        ("online", "0-3\n"),
        ("cpu0/topology/core_cpus_list", "0,2\n"),
        ("cpu1/topology/core_cpus_list", "1,3\n"),
        ("cpu2/topology/core_cpus_list", "0,2\n"),
        ("cpu3/topology/core_cpus_list", "1,3\n"),
    ];
    let machine = machine(&files, "0-3");
    let placement = Placement {
        arbiter: Some(CoreId(2)),
        ingress: vec![CoreId(1), CoreId(0)],
        egress: vec![CoreId(3)],
        ..Placement::default()
    };
    assert_eq!(
        texts(&placement.warnings(&machine, ALL_SPIN)),
        [
            "arbiter on core 2 and ingress shard 1 on core 0 spin on one physical core",
            "ingress shard 0 on core 1 and egress shard 0 on core 3 spin on one physical core",
        ]
    );
    let mut roles = ALL_SPIN;
    roles.ingress_spins = false;
    assert_eq!(placement.warnings(&machine, roles), []);

    // A core that is shared because that was asked for is nobody's sibling.
    let sharing = Placement {
        arbiter: Some(CoreId(2)),
        ingress: vec![CoreId(2)],
        share_cores: true,
        ..Placement::default()
    };
    assert_eq!(sharing.warnings(&machine, ALL_SPIN), []);
}

#[test]
fn better_cores_for_the_arbiter_are_named() {
    let arbiter_on = |core| Placement {
        arbiter: Some(CoreId(core)),
        ingress: vec![CoreId(1)],
        ..Placement::default()
    };
    let files = [("online", "0-3\n"), ("isolated", "2-3\n")];
    let isolating = machine(&files, "0-1");
    assert_eq!(
        texts(&arbiter_on(0).warnings(&isolating, ALL_SPIN)),
        [
            "the arbiter's core 0 is not isolated, cores 2-3 are",
            "the arbiter is on core 0, which often serves interrupts; cores 2-3 are free",
        ]
    );
    assert_eq!(arbiter_on(3).warnings(&isolating, ALL_SPIN), []);
    // The isolated cores are out of reach, and no other is free.
    assert_eq!(
        texts(&arbiter_on(0).warnings(&machine(&files, "1"), ALL_SPIN)),
        ["the mask 1 of this process hides cores 0,2-3"]
    );
    assert_eq!(arbiter_on(4).warnings(&plain(), ALL_SPIN), []);
}

/// Pins as the kernel sees them.
#[cfg(target_os = "linux")]
mod on_this_machine {
    use super::*;
    use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
    use tollgate::placement::{PinError, Pinning, current_core, pin_current_thread};

    /// Does something on a thread of its own, whose mask concerns nobody else.
    fn on_a_thread(body: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            let thread = scope.spawn(body);
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        });
    }

    /// The calling thread's mask, from another source than the one under test.
    fn mask_in_proc() -> CoreSet {
        let status = fs::read_to_string("/proc/thread-self/status").expect("the kernel tells");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        cores(line.expect("a thread has a mask").trim())
    }

    /// Narrows the calling thread to its last core, and gives that and another core.
    fn narrow_to_one() -> (CoreId, CoreId) {
        let mask = mask_in_proc();
        let one = mask.iter().next_back().expect("a thread has a core");
        // Where there is only one core, the other does not exist.
        let other = mask.iter().find(|&core| core != one);
        let other = other.unwrap_or(CoreId(1_023));
        let mut narrow = CpuSet::new();
        narrow.set(usize::from(one.0));
        sched_setaffinity(None, &narrow).expect("a mask may be narrowed");
        (one, other)
    }

    #[test]
    fn this_machine_is_read_as_its_kernel_describes_it() {
        let machine = Machine::read();
        assert_eq!(machine.allowed(), Some(&mask_in_proc()));
        if let Ok(online) = fs::read_to_string("/sys/devices/system/cpu/online") {
            assert_eq!(machine.online(), Some(&cores(&online)));
        }
    }

    /// The kernel itself would let a thread leave a mask that was set on its process.
    #[test]
    fn a_pin_goes_where_it_was_asked_to_or_nowhere() {
        on_a_thread(|| {
            let (one, other) = narrow_to_one();
            assert_eq!(pin_current_thread(one), Ok(()));
            assert_eq!(sched_getcpu(), usize::from(one.0));
            assert_eq!(current_core(), Some(one));

            let (core, mask) = (other, CoreSet::from_iter([one]));
            let expected = PinError::OutsideMask { core, mask };
            let text = format!("core {other} is outside the mask {one} of this thread");
            assert_eq!(expected.to_string(), text);
            assert_eq!(pin_current_thread(other), Err(expected));
            assert_eq!(mask_in_proc(), CoreSet::from_iter([one]));
            assert_eq!(sched_getcpu(), usize::from(one.0));
        });
    }

    #[test]
    fn a_thread_with_several_cores_is_pinned_to_any_of_them() {
        for core in mask_in_proc().iter() {
            on_a_thread(move || {
                assert_eq!(pin_current_thread(core), Ok(()));
                assert_eq!(mask_in_proc(), CoreSet::from_iter([core]));
                assert_eq!(sched_getcpu(), usize::from(core.0));
            });
        }
    }

    /// Also numbers that no mask has room for.
    #[test]
    fn a_core_that_does_not_exist_changes_nothing() {
        on_a_thread(|| {
            let mask = mask_in_proc();
            for number in [1_023, 1_024, u16::MAX] {
                let core = CoreId(number);
                let expected = PinError::OutsideMask {
                    core,
                    mask: mask.clone(),
                };
                assert_eq!(pin_current_thread(core), Err(expected));
                assert_eq!(mask_in_proc(), mask);
            }
        });
    }

    #[test]
    fn a_role_runs_pinned_unpinned_or_not_at_all() {
        on_a_thread(|| {
            let (one, other) = narrow_to_one();
            let mut placement = Placement {
                arbiter: Some(other),
                egress: vec![one],
                ..Placement::default()
            };
            let pinning = placement.pin_current_thread(Role::Egress(0));
            assert_eq!(pinning, Ok(Pinning::On(one)));
            let pinning = placement.pin_current_thread(Role::Egress(1));
            assert_eq!(pinning, Ok(Pinning::NotPlaced));

            let error = placement
                .pin_current_thread(Role::Arbiter)
                .expect_err("it is outside the mask");
            placement.if_unpinnable = IfUnpinnable::RunUnpinned;
            let pinning = placement
                .pin_current_thread(Role::Arbiter)
                .expect("it runs unpinned");
            assert_eq!(pinning, Pinning::Unpinned(error));
            assert_eq!(
                pinning.to_string(),
                format!("unpinned: core {other} is outside the mask {one} of this thread")
            );
            assert_eq!(mask_in_proc(), CoreSet::from_iter([one]));
        });
    }

    /// What the check says before a thread starts is what the pin says on it.
    #[test]
    fn the_check_agrees_with_the_pin() {
        on_a_thread(|| {
            let (one, other) = narrow_to_one();
            let machine = Machine::read();
            if let Some(online) = machine.online() {
                let others = online.iter().filter(|&core| core != one);
                assert_eq!(machine.hidden(), others.collect());
            }
            for core in [one, other] {
                let placement = Placement {
                    arbiter: Some(core),
                    ..Placement::default()
                };
                let is_good = placement.check(&machine, ALL_SPIN).is_empty();
                assert_eq!(is_good, pin_current_thread(core).is_ok(), "core {core}");
            }
        });
    }
}
