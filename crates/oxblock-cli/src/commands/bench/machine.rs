//! The machine in one line, for whoever reads a report later.

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// `2 cores, AMD EPYC, Linux 6.18.44`; what cannot be found out is left out.
pub fn describe() -> String {
    let cores = cores();
    let mut parts = vec![if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") }];
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find(|line| line.starts_with("model name"));
    parts.extend(model.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned())));
    let kernel = rustix::system::uname();
    parts.push(format!(
        "{} {}",
        kernel.sysname().to_string_lossy(),
        kernel.release().to_string_lossy()
    ));
    parts.join(", ")
}
