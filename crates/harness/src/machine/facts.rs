//! What there is to know of the machine and the build before anything is measured.

use std::path::Path;

use tollgate::placement::Machine;
use tollgate_report::Fact;

use super::Cores;

/// Processor, cores and mask, governor, clock source, kernel, memory, and this build.
#[must_use]
pub fn facts(cores: Cores) -> Vec<Fact> {
    let machine = Machine::read();
    let mut facts = vec![
        fact("processor", processor()),
        fact("cores", core_sets(&machine)),
        fact("placement", cores.to_string()),
        fact("frequency governor", governor(&cores)),
        fact(
            "clock source",
            line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        ),
        fact("system", system()),
        fact("memory", memory()),
        fact(
            "transparent huge pages",
            chosen(&line_of("/sys/kernel/mm/transparent_hugepage/enabled")),
        ),
    ];
    let build = if cfg!(debug_assertions) {
        "with debug assertions: figures mean nothing"
    } else {
        "optimised"
    };
    facts.push(fact(
        "build",
        format!("tollgate {}, {build}", env!("CARGO_PKG_VERSION")),
    ));
    facts
}

/// Bytes of memory that this process has resident; `None` where the system does not tell.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kibibytes = field_of(&status, "VmRSS")?;
    let kibibytes: u64 = kibibytes.strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes * 1_024)
}

fn fact(name: &str, value: impl Into<String>) -> Fact {
    Fact {
        name: name.to_owned(),
        value: value.into(),
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn line_of(path: impl AsRef<Path>) -> String {
    let told = std::fs::read_to_string(path);
    told.map_or_else(|_| unknown(), |text| text.trim().to_owned())
}

/// What stands in brackets, as in `always [madvise] never`.
fn chosen(text: &str) -> String {
    let inside = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or_else(|| text.to_owned(), |(chosen, _)| chosen.to_owned())
}

/// The value of a line `name : value`.
fn field_of<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn processor() -> String {
    let told = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = field_of(&told, "model name").map(str::to_owned);
    let hypervisor = told.lines().any(|line| {
        line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor")
    });
    let name = name.unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    if hypervisor {
        format!("{name}, virtual")
    } else {
        name
    }
}

fn core_sets(machine: &Machine) -> String {
    let shown = |set: Option<String>| set.unwrap_or_else(unknown);
    let online = machine.online().map(ToString::to_string);
    let allowed = machine.allowed().map(ToString::to_string);
    let isolated = machine.isolated().filter(|set| !set.is_empty());
    let mut text = format!(
        "{} online, {} allowed to this process",
        shown(online),
        shown(allowed)
    );
    if let Some(isolated) = isolated {
        text.push_str(&format!(", {isolated} isolated"));
    }
    text
}

fn governor(cores: &Cores) -> String {
    let of = |id: u16| {
        line_of(format!(
            "/sys/devices/system/cpu/cpu{id}/cpufreq/scaling_governor"
        ))
    };
    of(cores.arbiter.map_or(0, |core| core.0))
}

fn system() -> String {
    let release = line_of("/proc/sys/kernel/osrelease");
    format!("{} {release}", std::env::consts::OS)
}

fn memory() -> String {
    let told = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    field_of(&told, "MemTotal").map_or_else(unknown, str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_brackets_is_chosen() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("unknown"), "unknown");
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "VmRSSx: 1\nVmRSS:\t  12 kB\n";
        assert_eq!(field_of(text, "VmRSS"), Some("12 kB"));
        assert_eq!(field_of(text, "Vm"), None);
    }

    #[test]
    fn every_fact_says_something() {
        for fact in facts(Cores::choose()) {
            assert!(!fact.value.is_empty(), "{}", fact.name);
        }
    }
}
