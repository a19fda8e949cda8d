"""Pictures as a task: a small CNN on CIFAR-10 or on generated pictures, and the shortest example of a `TorchTask`."""

from functools import partial
from typing import Any

from pydantic import Field
from torch import Tensor
from torch.nn import functional

from mobfl.errors import InputError
from mobfl.learning.task import Kpi, TaskRequest
from mobfl.learning.torch_task import TorchTask
from mobfl.scenario import Count, Table
from mobfl.tasks.images.cifar import read_cifar10
from mobfl.tasks.images.generated import TRAINING_SAMPLES, VALIDATION_SAMPLES, generated_pictures
from mobfl.tasks.images.model import PictureNet
from mobfl.tasks.images.pictures import Pictures, commonest_class

_WIDTH_STEP = 4  # group norm's


class ImageOptions(Table):
    """What a user may choose; the pictures are generated unless a folder with CIFAR-10 is given."""

    width: Count = 16
    training_samples: Count = TRAINING_SAMPLES  # these three are the generated pictures'
    validation_samples: Count = VALIDATION_SAMPLES
    data_seed: int = Field(0, ge=0)


def image_task(options: ImageOptions, request: TaskRequest) -> TorchTask:
    """The task with these options, on CIFAR-10's files if given."""
    if options.width % _WIDTH_STEP:
        raise InputError(f"option width must be a multiple of {_WIDTH_STEP}, got {options.width}")
    if request.backend not in ("auto", "torch"):
        raise InputError(f"backend must be auto or torch for images, got {request.backend!r}")
    (train, validation), source = _pictures(options, request)
    request.progress(len(train) + len(validation))
    return TorchTask(
        partial(PictureNet, options.width),
        functional.cross_entropy,
        (train.pixels, train.labels),
        (validation.pixels, validation.labels),
        {Kpi("accuracy", "accuracy", leads=True): is_right},
        name="images",
        groups={"class": train.labels},
        baselines={"commonest class": commonest_class(train, validation)},
        record={**source, "width": options.width},
        device=request.device,
    )


def is_right(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs.argmax(dim=1) == targets


def _pictures(options: ImageOptions, request: TaskRequest) -> tuple[tuple[Pictures, Pictures], dict[str, Any]]:
    """Training and validation pictures, and where they are from."""
    data = request.data
    if data is None:
        sizes = options.training_samples, options.validation_samples
        source = {"data": "generated pictures", "data_seed": options.data_seed}
        return generated_pictures(options.data_seed, *sizes), source
    if idle := sorted(options.model_fields_set & {"training_samples", "validation_samples", "data_seed"}):
        raise InputError(f"option {idle[0]} is the generated pictures' and must not come with data, got {data}")
    return read_cifar10(data), {"data": data.name}
