"""The devices that programs select providers by: the processor, with the one provider that there is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from kiln.onnxruntime._process import __version__


class OrtHardwareDeviceType(IntEnum):
    """Kinds of devices.

    >>> ort.OrtHardwareDeviceType.CPU.value
    0
    """

    CPU = 0
    GPU = 1
    NPU = 2


class OrtExecutionProviderDevicePolicy(IntEnum):
    """Policies by which onnxruntime selects devices. Each of them selects the processor here.

    >>> ort.OrtExecutionProviderDevicePolicy.PREFER_CPU.value
    1
    """

    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6


@dataclass(frozen=True)
class OrtHardwareDevice:
    """A device of the machine.

    >>> ort.get_ep_devices()[0].device.type.name
    'CPU'
    """

    type: OrtHardwareDeviceType = OrtHardwareDeviceType.CPU
    vendor_id: int = 0
    vendor: str = ""
    device_id: int = 0
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OrtEpDevice:
    """A provider on a device.

    >>> ort.get_ep_devices()[0].ep_name
    'CPUExecutionProvider'
    """

    ep_name: str = "CPUExecutionProvider"
    ep_vendor: str = "Kiln"
    ep_metadata: dict[str, str] = field(default_factory=lambda: {"version": __version__})
    ep_options: dict[str, str] = field(default_factory=dict)
    device: OrtHardwareDevice = field(default_factory=OrtHardwareDevice)


def get_ep_devices() -> list[OrtEpDevice]:
    """The providers on devices: one, on the processor.

    >>> len(ort.get_ep_devices())
    1
    """
    return [OrtEpDevice()]


__all__ = [
    "OrtEpDevice",
    "OrtExecutionProviderDevicePolicy",
    "OrtHardwareDevice",
    "OrtHardwareDeviceType",
    "get_ep_devices",
]
