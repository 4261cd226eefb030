//! `kiln devices`: the GPUs and their libraries, and why one is not used.
//!
//! A build without the feature `cuda` reports that, in the same form. Missing libraries are not a failure of the
//! command.

use std::io::Write;

use kiln_kernels::gpu::DeviceFacts;
use serde::Serialize;

use crate::failure::{Outcome, WithCode};
use crate::table::Table;
use crate::table::bytes;

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

/// How a binary comes to have support for GPUs.
#[cfg(not(feature = "cuda"))]
const HOW_TO_BUILD: &str =
    "this binary was built without GPUs: cargo build --release --features cuda builds one with them";

/// All that is shown, and the JSON object.
#[derive(Debug, Serialize)]
struct View {
    /// Whether this binary can use GPUs at all.
    built_in: bool,
    libraries: Vec<LibraryView>,
    devices: Vec<DeviceFacts>,
    /// Why there are no devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_devices: Option<String>,
}

#[derive(Debug, Default, Serialize)]
struct LibraryView {
    name: &'static str,
    used_for: &'static str,
    /// As the library numbers itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// The same for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    version_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// A file in a folder of `KILN_CUDA_LIB_DIRS` in whose place the loader took that one.
    #[serde(skip_serializing_if = "Option::is_none")]
    passed_over: Option<String>,
    /// Why it is not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_used: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, screen: &mut dyn Write) -> Outcome {
    let view = view()?;
    if args.json {
        let json = serde_json::to_string_pretty(&view).failed(|| "cannot write JSON")?;
        writeln!(screen, "{json}")?;
        return Ok(());
    }
    print(&view, screen)
}

#[cfg(not(feature = "cuda"))]
fn view() -> Outcome<View> {
    let no_devices = Some(HOW_TO_BUILD.to_owned());
    Ok(View { built_in: false, libraries: Vec::new(), devices: Vec::new(), no_devices })
}

#[cfg(feature = "cuda")]
fn view() -> Outcome<View> {
    use crate::failure::Failure;

    let knobs = kiln_knobs::Knobs::from_env().map_err(Failure::usage)?;
    let inventory = kiln_kernels::gpu::cuda::probe(&knobs.cuda_options());
    let libraries = inventory
        .libraries
        .into_iter()
        .map(|library| {
            let (name, used_for) = (library.name, library.used_for);
            match library.found {
                Ok(found) => LibraryView {
                    name,
                    used_for,
                    version: Some(found.version),
                    version_text: Some(version_text(name, found.version)),
                    path: found.path.map(|path| path.display().to_string()),
                    passed_over: found.passed_over.map(|path| path.display().to_string()),
                    not_used: None,
                },
                Err(reason) => LibraryView { name, used_for, not_used: Some(reason), ..LibraryView::default() },
            }
        })
        .collect();
    let (devices, no_devices) = match inventory.devices {
        Ok(devices) if devices.is_empty() => (devices, Some("the driver knows of none".to_owned())),
        Ok(devices) => (devices, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    Ok(View { built_in: true, libraries, devices, no_devices })
}

/// A version as people write it. CUDA's own parts encode the major version in thousands, its libraries in ten
/// thousands.
#[cfg(feature = "cuda")]
fn version_text(name: &str, version: u64) -> String {
    match name {
        "CUDA driver" | "NVRTC" => format!("{}.{}", version / 1000, version % 1000 / 10),
        _ => format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100),
    }
}

fn print(view: &View, screen: &mut dyn Write) -> Outcome {
    if !view.libraries.is_empty() {
        let mut table = Table::new(&["library", "used for", "version", "file, or why it is not used"]);
        for library in &view.libraries {
            let mut from = library.not_used.clone().or(library.path.clone()).unwrap_or_default();
            if let Some(other) = &library.passed_over {
                from += &format!(" (not {other}: the loader has this one under a shorter name)");
            }
            let version = library.version_text.clone().unwrap_or_else(|| "-".to_owned());
            table.row([library.name.to_owned(), library.used_for.to_owned(), version, from]);
        }
        writeln!(screen, "{}", table.text())?;
    }
    if let Some(reason) = &view.no_devices {
        writeln!(screen, "no devices: {reason}")?;
        return Ok(());
    }
    print_devices(&view.devices, screen)?;
    Ok(())
}

fn print_devices(devices: &[DeviceFacts], screen: &mut dyn Write) -> Outcome {
    let titles = ["device", "name", "compute", ">multiprocessors", ">memory", ">L2 cache"];
    let mut table = Table::new(&titles);
    for device in devices {
        table.row([
            format!("cuda:{}", device.ordinal),
            device.name.clone(),
            format!("{}.{}", device.compute[0], device.compute[1]),
            device.multiprocessors.to_string(),
            bytes(device.memory_bytes),
            bytes(device.l2_bytes),
        ]);
    }
    write!(screen, "{}", table.text())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(view: &View) -> String {
        let mut screen = Vec::new();
        print(view, &mut screen).unwrap();
        String::from_utf8(screen).unwrap()
    }

    #[test]
    fn what_is_there_is_shown_with_files_and_what_is_not_with_reasons() {
        let device = DeviceFacts {
            name: "NVIDIA Something".to_owned(),
            ordinal: 1,
            compute: [9, 0],
            multiprocessors: 132,
            memory_bytes: 141 << 30,
            l2_bytes: 50 << 20,
            ..DeviceFacts::default()
        };
        let found = LibraryView {
            name: "cuDNN",
            used_for: "convolutions",
            version: Some(91900),
            version_text: Some("9.19.0".to_owned()),
            path: Some("/lib/libcudnn.so".to_owned()),
            passed_over: Some("/other/libcudnn.so.9".to_owned()),
            not_used: None,
        };
        let missing = LibraryView { name: "NVRTC", not_used: Some("nowhere".to_owned()), ..LibraryView::default() };
        let view = View { built_in: true, libraries: vec![found, missing], devices: vec![device], no_devices: None };
        let text = shown(&view);
        for part in [
            "9.19.0",
            "/lib/libcudnn.so (not /other/libcudnn.so.9",
            "nowhere",
            "cuda:1",
            "NVIDIA Something",
            "9.0",
            "132",
            "144384.0 MiB",
        ] {
            assert!(text.contains(part), "no {part} in:\n{text}");
        }
        let json = serde_json::to_value(&view).unwrap();
        assert_eq!(json["libraries"][0]["version"], 91900);
        assert_eq!(json["libraries"][1]["not_used"], "nowhere");
        assert_eq!(json["devices"][0]["multiprocessors"], 132);
    }

    #[test]
    fn this_machine_is_told_of_in_either_form() {
        let view = view().unwrap();
        assert_eq!(view.built_in, cfg!(feature = "cuda"));
        assert_eq!(view.devices.is_empty(), view.no_devices.is_some());
        let text = shown(&view);
        assert!(text.contains(if view.devices.is_empty() { "no devices: " } else { "cuda:0" }), "{text}");
        assert!(view.built_in || text.contains("--features cuda"), "{text}");
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn versions_are_written_as_people_do() {
        assert_eq!(version_text("CUDA driver", 13000), "13.0");
        assert_eq!(version_text("NVRTC", 12080), "12.8");
        assert_eq!(version_text("cuDNN", 91900), "9.19.0");
    }
}
