//! `--device`: where networks run, and what the device's libraries may do.

use std::str::FromStr;

use kiln::session::SessionOptions;
use kiln_kernels::gpu::Policy;
use kiln_knobs::ByteSize;
use kiln_knobs::Knobs;

use crate::failure::Outcome;

/// Flags about devices.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct DeviceArgs {
    /// Where networks run: cpu, or an NVIDIA GPU by its number, cuda or cuda:N (`kiln devices` lists them)
    #[arg(long, value_name = "DEVICE", default_value = "cpu", help_heading = "Device")]
    device: Place,
    /// Let the device's libraries round factors to TF32
    #[arg(long, help_heading = "Device")]
    tf32: bool,
    /// Use only algorithms of the device's libraries whose results are the same in every run
    #[arg(long, help_heading = "Device")]
    deterministic: bool,
    /// Most scratch memory of an algorithm, as in 256MiB
    #[arg(long, value_name = "BYTES", help_heading = "Device")]
    workspace: Option<ByteSize>,
    /// Most memory to use on the device, as in 16GiB
    #[arg(long, value_name = "BYTES", help_heading = "Device")]
    device_memory: Option<ByteSize>,
}

/// A place where networks run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// The processor.
    #[default]
    Cpu,
    /// An NVIDIA GPU, by its number.
    Cuda(u32),
    /// A device that is emulated on the processor.
    #[cfg(feature = "emulator")]
    Emulated,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let number = |text: &str| text.parse().ok();
        let place = match text {
            "cpu" => Some(Place::Cpu),
            "cuda" => Some(Place::Cuda(0)),
            #[cfg(feature = "emulator")]
            "emulated" => Some(Place::Emulated),
            _ => text.strip_prefix("cuda:").and_then(number).map(Place::Cuda),
        };
        place.ok_or_else(|| "expected cpu, cuda or cuda:N".to_owned())
    }
}

impl DeviceArgs {
    /// Sets the options of these flags.
    pub(crate) fn apply(&self, options: &mut SessionOptions, knobs: &Knobs) -> Outcome {
        self.limit(options);
        match self.device {
            Place::Cpu => Ok(()),
            Place::Cuda(ordinal) => open(ordinal, options, knobs),
            #[cfg(feature = "emulator")]
            Place::Emulated => {
                options.device =
                    Some(kiln_kernels::gpu::emulated::Emulated::open(kiln_kernels::gpu::emulated::Script::default()));
                Ok(())
            }
        }
    }

    /// Sets the policy of the device's libraries and the limit of its memory.
    fn limit(&self, options: &mut SessionOptions) {
        let default = Policy::default();
        options.device_policy = Policy {
            tf32: self.tf32,
            deterministic: self.deterministic,
            workspace: self.workspace.map_or(default.workspace, |size| size.0 as u64),
            ..default
        };
        if let Some(size) = self.device_memory {
            options.device_bytes = size.0 as u64;
        }
    }
}

#[cfg(feature = "cuda")]
fn open(ordinal: u32, options: &mut SessionOptions, knobs: &Knobs) -> Outcome {
    use crate::failure::WithCode;
    let device =
        kiln_kernels::gpu::cuda::open(ordinal, &knobs.cuda_options()).usage(|| format!("--device cuda:{ordinal}"))?;
    options.device = Some(device);
    Ok(())
}

#[cfg(not(feature = "cuda"))]
fn open(ordinal: u32, _: &mut SessionOptions, _: &Knobs) -> Outcome {
    use crate::failure::{Code, Failure};
    let why = format!("--device cuda:{ordinal}: this program was built without the feature cuda");
    Err(Failure::new(Code::Unsupported, anyhow::anyhow!(why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names_and_numbers() {
        let cases = [("cpu", Place::Cpu), ("cuda", Place::Cuda(0)), ("cuda:3", Place::Cuda(3))];
        for (text, place) in cases {
            assert_eq!(text.parse(), Ok(place));
        }
        for text in ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "CPU"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }
}
