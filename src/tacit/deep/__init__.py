"""Private training of PyTorch models: the model and optimiser one already has, clipped per example, noised once a step, priced by event.

>>> import torch
>>> model = torch.nn.Linear(4, 2)
>>> optimizer = torch.optim.Adam(model.parameters())
>>> data = torch.randn(500, 4), torch.randint(2, (500,))
>>> plan = dict(epsilon=2, delta=1e-5, clip=1.0, sampler=PoissonBatches(expected_batch=50, size=500), epochs=2)
>>> private = make_private_with_epsilon(model, optimizer, data, **plan)
>>> for _ in range(2):
...     for x, y in private.loader:
...         optimizer.zero_grad()
...         torch.nn.functional.cross_entropy(model(x), y).backward()
...         optimizer.step()
>>> 1.9 < private.get_epsilon(delta=1e-5).upper <= 2
True
"""

# Imports inside functions: scipy and pictures are needed by a few functions only.

import warnings as _warnings

from tacit.deep.errors import TorchUntested, needs, untested

with needs("torch", "torch"):
    import torch as _torch

if (_said := untested(_torch.__version__)) is not None:
    _warnings.warn(_said, TorchUntested, stacklevel=2)

from tacit.deep.activations import TemperedSigmoid, temper
from tacit.deep.clipping import Clipper, ClippingError, Rule, adaptive, automatic, flat, per_layer
from tacit.deep.correlated import Correlated, correlated_noise
from tacit.deep.distributed import make_private_distributed, shard
from tacit.deep.errors import TrainingError
from tacit.deep.ftrl import FTRL, CyclicPoisson, Passes
from tacit.deep.history import History, NoiseDrownsSignal
from tacit.deep.partial import add_adapters, merge_adapters, train_only
from tacit.deep.pate import Ensemble, GaussianVotes, LaplaceVotes, partition
from tacit.deep.private import PrivateTraining, make_private, make_private_with_epsilon
from tacit.deep.samplers import Allocation, FixedSize, FullBatch, PoissonBatches, Sampler
from tacit.deep.scattering import Scattering
from tacit.deep.student import semi_supervised_student
from tacit.deep.tune import Trials, Tuned, tune, tune_grid
from tacit.deep.unlearning import Shards, SummationForm, already_forgotten
from tacit.deep.users import ByExample, make_user_private
from tacit.deep.validate import Finding, ModelError, fix, validate
from tacit.deep.watching import evaluate, progress, status

__all__ = [
    "FTRL",
    "Allocation",
    "ByExample",
    "Clipper",
    "ClippingError",
    "Correlated",
    "CyclicPoisson",
    "Ensemble",
    "Finding",
    "FixedSize",
    "FullBatch",
    "GaussianVotes",
    "History",
    "LaplaceVotes",
    "ModelError",
    "NoiseDrownsSignal",
    "Passes",
    "PoissonBatches",
    "PrivateTraining",
    "Rule",
    "Sampler",
    "Scattering",
    "Shards",
    "SummationForm",
    "TemperedSigmoid",
    "TorchUntested",
    "TrainingError",
    "Trials",
    "Tuned",
    "adaptive",
    "add_adapters",
    "already_forgotten",
    "automatic",
    "correlated_noise",
    "evaluate",
    "fix",
    "flat",
    "make_private",
    "make_private_distributed",
    "make_private_with_epsilon",
    "make_user_private",
    "merge_adapters",
    "partition",
    "per_layer",
    "progress",
    "semi_supervised_student",
    "shard",
    "status",
    "temper",
    "train_only",
    "tune",
    "tune_grid",
    "validate",
]
