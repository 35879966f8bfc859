"""The exceptions of halfulp, and the register of the constraints they enforce.

Every message says *operator: argument=value: rule; what is accepted* and ends with the label of the constraint, for
example ``max_pool2d: stride=(0, 1): every stride must be >= 1 [W3]``. The labels are those of ``docs/spec.md``.
"""

from __future__ import annotations

__all__ = [
    "CONSTRAINTS",
    "CertificateError",
    "DTypeError",
    "HalfulpError",
    "ModelError",
    "PolicyError",
    "PyramidError",
    "ShapeError",
    "TapeError",
]

CONSTRAINTS: dict[str, str] = {
    # Windows (every operator with a kernel)
    "W1": "every kernel size is an integer >= 1",
    "W2": "every padding is an integer >= 0, a pair of them, or one of 'valid', 'same', 'same_lower'",
    "W3": "every stride is an integer >= 1",
    "W4": "every dilation is an integer >= 1",
    "W5": "a window is not larger than the padded input",
    "W6": "sequences that describe the same spatial axes have the same length, and at least one fixes the rank",
    "W7": "the input has at least as many axes as there are spatial axes",
    # Inputs
    "I1": "the element type is supported by the operator",
    "I2": "all scalars of a call are of one kind",
    "I3": "the operator gets the number of inputs that it takes",
    "I4": "a tangent has the shape and element type of its primal",
    "I5": "a cotangent has the shape and element type of the output",
    "I6": "out is a writeable NumPy array of the shape and element type of the output",
    "I7": "sizes are below 2**60, and the arrays fit in memory",
    "I8": "an array is not a masked array",
    # Policies
    "P1": "ties is 'first', 'last', 'all' or 'split'",
    "P2": "nan is 'propagate', 'ignore' or 'raise'",
    "P3": "under nan='raise' no input cell is NaN",
    "P4": "precision is 'correct' or 'fast'",
    "P5": "a flag is True or False",
    # Average
    "A1": "divisor_override is None or an integer other than 0, below 2**63 in size",
    # Element types of results
    "N1": "dtype is None, 'same', or the name of an integer, bool or float type",
    "N2": "the element type of the result holds every value",
    "N3": "a derivative has the element type of its input",
    "N4": "a mode is computed of exact numbers",
    # Smooth maximum
    "S1": "beta is a finite real number other than 0",
    "S2": "the scalar type has exp and log",
    # Elementwise functions
    "H1": "a parameter of an elementwise function is a finite number with an exact value",
    "H2": "approximate is 'none' or 'tanh'",
    "H3": "min_val does not exceed max_val",
    # Adaptive and global pooling
    "D1": "every output size is an integer >= 1, or None to keep the input's size",
    "G1": "ndim is an integer >= 1",
    # Power means
    "L1": "p is a real number >= 1, or infinity",
    "L2": "the scalar type has the powers and roots that p needs",
    # Unfold and fold
    "K1": "an unfold's input has a channel axis; a fold's has the cells of a window and as many columns as windows",
    # Max unpooling
    "U1": "indices are integers, one for every value",
    "U2": "every index is a cell of the output's plane, or -1 for none",
    "U3": "every output size is an integer >= 0",
    # Fractional max pooling
    "F1": "samples are numbers >= 0 and < 1, one for every plane and spatial axis",
    "F2": "the input has at least output_size + kernel_size - 1 cells along every axis",
    "F3": "exactly one of output_size and output_ratio is given",
    # Convolution
    "C1": "the input has ndim + 1 or ndim + 2 axes",
    "C2": "the weight has ndim + 2 axes, none of its kernel sizes 0",
    "C3": "groups is an integer >= 1 that divides the channels",
    "C4": "the weight's channels match the input's",
    "C5": "the bias is one vector with an element per output channel",
    # Matrix products
    "M1": "the factors of a matrix product have axes of the same inner size",
    "M2": "the leading axes of a matrix product are equal, or 1 in one of the factors",
    "M3": "the weight of a linear layer is (outputs, inputs), its bias (outputs)",
    # Normalisation
    "R1": "eps is a finite number >= 0, momentum one from 0 to 1",
    "R2": "weight and bias have one number for every channel, or for every cell that is normalised",
    "R3": "the input has the axes that are normalised",
    "R4": "given statistics have one number per channel, and only batch norm in evaluation has them",
    "R5": "the scalar has the square roots that are asked for",
    # Softmax and reductions
    "R6": "dim names axes of the input",
    # Losses and variance
    "Z4": "reduction is 'mean', 'sum' or 'none', label_smoothing a number from 0 to 1, ignore_index an integer",
    "Z5": "a loss's target has the shape of the input, or that without its classes",
    "Z6": "a class index is one of the classes, or ignore_index",
    "Z7": "class weights are finite, one for every class",
    "Z8": "correction is an integer >= 0, and less than the number of cells",
    # Interpolation
    "Z1": "exactly one of size and scale_factor is given, integers >= 1 or finite numbers > 0",
    "Z2": "mode is one that is known, and align_corners is for linear and cubic ones",
    "Z3": "the input has the spatial axes that mode, size or scale_factor say, none of them empty",
    # Transposed convolution
    "T1": "every output_padding is an integer >= 0 and smaller than the stride or the dilation",
    "T2": "every output size is at least 1",
    # Exact numbers
    "X1": "only finite numbers have an exact rational value",
    "X2": "a target of rounding is float16, bfloat16, float32 or float64",
    "X3": "a ball that is rounded lies within one rounding interval",
    # The tape
    "E1": "a node id is the position of a node of this tape",
    "E2": "a node's inputs have shapes that fit the operation",
    "E3": "a cotangent has the shape and kind of the node's value",
    "E4": "only a scalar output may omit its cotangent",
    "E5": "all inputs of a node have one scalar kind",
    "E6": "an operator has forward, jvp and vjp",
    "E8": "an operator is declared with its kind, its second derivative, its inputs and how cases of it are drawn",
    # The PyTorch bridge, which keeps PyTorch's own rules
    "B1": "padding of a max or average pooling is at most half the kernel size",
    "B2": "tensors are on the CPU",
    "B3": "an input is (channels, …) or (batch, channels, …), and only its batch may be empty",
    "B4": "padding='same' of a convolution takes stride 1 only",
    "B5": "a module is compiled or traced by torch.compile, torch.export, torch.fx or torch.jit.trace",
    "B6": "an optimizer's settings are finite numbers in their range, its parameters dense and real",
    "B7": "a dropout's probability is in [0, 1]; seed, step and row are counts",
    "B8": "exact gradients of a batch in parts are those of replaced convolutions, linear layers and normalisations",
    "B9": "every worker of a data-parallel model answers within the timeout",
    "E7": "a node's JVP and VJP are adjoint and agree with the exact ones",
    # JAX
    "J1": "an operator under jax is compiled for the CPU",
    "J2": "the fields of an operator under jax are numbers and strings",
    "J3": "a result under jax has an element type that jax is configured to hold",
    # ONNX models
    "O1": "a model is a complete, well-formed ONNX file of operator set 6 or later",
    "O2": "every operator of a model is supported",
    "O3": "every attribute of a node has a supported value",
    "O4": "every value is defined once, and before it is used: a graph has no cycle and no gap",
    "O5": "external data lies in a file inside the model's folder",
    "O6": "a tensor's data fits its shape and type, and its size fits the limit",
    "O7": "a call gives one array for every input, of the declared type and shape",
    "O8": "a model runs on the CPU",
    "O9": "the inputs of a node fit its operator",
    "O10": "a loop of a model ends",
    # Bounds
    "V1": "a box has finite bounds, no lower one above its upper one",
    "V2": "a box or a point has the shape of the network's input, a property that of its output",
    "V3": "every operator of a network has bounds",
    "V4": "method, arithmetic and time limit have accepted values",
    "V5": "no value of the network overflows on the box",
    "V6": "a property is made of linear inequalities with finite numbers",
    "V7": "a certificate is complete, belongs to the network, and every line of it holds exactly",
    # Properties in VNN-LIB form
    "Q1": "a property file is text of declarations and assertions in matching parentheses, of limited size and depth",
    "Q2": "every variable is X_i or Y_j, declared once as Real, numbered from 0 without a gap",
    "Q3": "an assertion is and, or, <= and >= over linear terms; no inequality mixes inputs and outputs",
    "Q4": "every input is bounded by numbers, the lower one not above the upper one",
    "Q5": "a property has a limited number of alternatives",
    # Dask arrays
    "Y1": "the sizes of a Dask array are known",
    "Y2": "derivatives, and indices of operators that need whole planes, need arrays in memory",
    # Pyramids
    "Y3": "the source of a pyramid is a complete Zarr array, TIFF file or .npy file of numbers",
    "Y4": "axes are 2 to 5 different ones out of t, c, z, y, x, with y and x",
    "Y5": "a target is new, or is an unfinished pyramid of the same source and options that no other process writes",
    "Y6": "method, factor, levels, chunks, compressor, dtype and memory have accepted values",
    "Y7": "the levels of a verified pyramid are smaller than its base by integer factors",
    "Y8": "pooling of an xarray object names its dimensions, with windows that fit the boundary",
}
"""Label -> the constraint in one sentence."""


class HalfulpError(Exception):
    """The base of every exception that halfulp raises on purpose.

    >>> from halfulp import HalfulpError, MaxPool
    >>> try:
    ...     MaxPool((2, 2), stride=(0, 1))
    ... except HalfulpError as error:
    ...     print(error)
    ...     print(error.label)
    max_pool2d: stride=(0, 1): every stride must be >= 1 [W3]
    W3
    """

    def __init__(self, operator: str, argument: str, rule: str, label: str) -> None:
        if label not in CONSTRAINTS:
            raise KeyError(f"unknown constraint label {label!r}")
        self.operator = operator
        self.argument = argument
        self.rule = rule
        self.label = label
        super().__init__(operator, argument, rule, label)

    def __str__(self) -> str:
        return f"{self.operator}: {self.argument}: {self.rule} [{self.label}]"


class ShapeError(HalfulpError, ValueError):
    """A size, rank or shape that does not fit."""


class DTypeError(HalfulpError, TypeError):
    """An element type or scalar kind that an operator does not take."""


class PolicyError(HalfulpError, ValueError):
    """A setting that is not one of the accepted ones, or an input that the chosen policy refuses."""


class TapeError(HalfulpError, ValueError):
    """An invalid use of the tape."""


class ModelError(HalfulpError, ValueError):
    """An ONNX model that is malformed or not supported, or a call with inputs that do not fit it."""


class CertificateError(HalfulpError, ValueError):
    """A certificate of bounds that is malformed, belongs to another network, or claims something false."""


class PyramidError(HalfulpError, ValueError):
    """A source, target or option that cannot be used for a pyramid."""
