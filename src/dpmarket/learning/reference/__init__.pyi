from .noisy_descent import NoisyDescent as NoisyDescent
from .output_perturbation import OutputPerturbation as OutputPerturbation
from .sampling import PersonalisedSampling as PersonalisedSampling
from .smallest_epsilon import SmallestEpsilon as SmallestEpsilon
from .threshold import LargeEpsilonsOnly as LargeEpsilonsOnly
