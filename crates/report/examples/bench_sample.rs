//! Writes a made-up benchmark's report: `bench_sample PATH [SEED] [SLOWER]`. A path that ends in `.json`,
//! `.txt` or `.hlog` gets that form of it, any other the page.

use std::{env, error, fs, io};

#[path = "../tests/bench/made_up.rs"]
mod made_up;

fn main() -> Result<(), Box<dyn error::Error>> {
    let mut arguments = env::args().skip(1);
    let path = arguments
        .next()
        .ok_or_else(|| io::Error::other("usage: bench_sample PATH [SEED] [SLOWER]"))?;
    let seed = arguments.next().map_or(Ok(1), |seed| seed.parse())?;
    let slower = arguments.next().map_or(Ok(1.0), |slower| slower.parse())?;
    let report = made_up::report(seed, slower);
    match path.rsplit_once('.') {
        Some((_, "json")) => fs::write(&path, report.json()?)?,
        Some((_, "txt")) => fs::write(&path, report.text())?,
        Some((_, "hlog")) => report.write_hlog(&mut fs::File::create(&path)?)?,
        _ => fs::write(&path, report.html())?,
    }
    Ok(())
}
