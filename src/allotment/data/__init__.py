"""Data sets a user can trust: published archives become verified, prepared arrays.

Each data set is a declaration in ``DATASETS``: where its archives are published, their hashes, and
what their content must be. ``prepare`` downloads and verifies the archives and writes one file
``NAME.npz`` (the census stays as it is published); ``load`` gives its arrays; ``status`` and
``check`` tell what is there and whether it is sound. Every fault is a ``DataError`` whose message
is one sentence, and no fault leaves half a file behind. The folder is the one named, or else
``$ALLOTMENT_DATA``, or else the user's cache.

>>> from pathlib import Path
>>> from allotment.data import DATASETS, load
>>> list(DATASETS)
['mnist', 'fashion_mnist', 'cifar100', 'omniglot', 'census']
>>> DATASETS["mnist"].arrays["x_train"]
ArraySpec(dtype='uint8', shape=(60000, 28, 28))
>>> load("mnist", Path("empty"))
Traceback (most recent call last):
    ...
allotment.data._declaration.DataError: The data set `mnist` should be in `empty/mnist.npz`. \
Found no such file; this gets it: allotment data prepare mnist --data-dir empty
"""

from ._declaration import Archive as Archive
from ._declaration import Array as Array
from ._declaration import ArraySpec as ArraySpec
from ._declaration import DataError as DataError
from ._declaration import DataSet as DataSet
from ._folder import data_folder as data_folder
from ._folder import load as load
from ._folder import status as status
from ._preparation import check as check
from ._preparation import prepare as prepare
from ._registry import DATASETS as DATASETS
from ._registry import dataset_named as dataset_named
