# The library's inside; `multitables.py` is its face. Folders are named by which process runs them.
#
#   errors.py           every exception, one message grammar
#   options.py          the knobs: defaults, limits, checks
#   chunk_index.py      a dataset in a file -> ChunkIndex (where its chunks lie, how to decode them)
#   hdf5_facts.py       what HDF5 tells of one dataset: filters, chunks, fill value
#   element_type.py     HDF5 type -> NumPy dtype, and whether stored bytes are delivered
#   open_options.py     PyTables' open_file options -> what matters to a stream
#   source_errors.py    what HDF5 says of a bad file or path -> exception
#   read_plan.py        indexes + options -> ReadPlan (pure)
#   read_tasks.py       which rows and chunks a reader claims at once (pure)
#   subset.py           which rows take part in training (pure)
#   dealing.py          which positions of an epoch a rank delivers, and what is left (pure)
#   batch_plan.py       indexes + order + positions -> ReadPlan of batches (pure)
#   resume.py           where training stands, as a state that can be saved (pure)
#   catalogue.py        index -> catalogue: a plan without tasks, for random access
#   selection.py        what indexing a dataset describes, as written
#   view.py             a result that is described, and NumPy's indexing of it
#   hyperslab.py        view -> the normal form that the core reads
#   library_form.py     selection -> what a library is asked
#   normal_form.py      selection -> native, for a library, or refused
#   wire_request.py     the same as bytes for a reader
#   wire.py             ReadPlan -> bytes that the core reads
#   device.py           what kind of device holds a file
#   parent/             runs only in the user's process
#     streamer.py         the public Streamer: paths and options -> streams
#     queue.py            the direct queue and the generator over a ring
#     batches.py          epochs, ranks and resume over streams
#     launch.py           paths -> indexes; plan -> a stream that runs
#     team.py             readers that rest between streams
#     random_access.py    the public Reader: datasets, and requests for what was indexed
#     dataset.py          datasets that are indexed without being read
#     catalogued.py       what selections know of their dataset, with its catalogues
#     stage.py            memory of the user's for results
#     request.py          a request: a future whose result lies in a stage
#     proxy.py            a stand-in for a result, that ends with its block
#     service.py          what a Reader and its requests share
#     watcher.py          the thread that tells requests their end
#     supervisor.py       starts, watches, replaces and stops readers
#     failure.py          a reader's record of what went wrong -> exception
#     account.py          a reader's numbers, named
#     limit.py            the codec limit, to measure streams against
#     build_info.py       versions and features, for bug reports
#   adapters/           runs in the user's process, each file with one library
#     members.py          one array, or a tuple or dict of them
#     torch_batches.py    the public TorchDataset: batches as tensors
#     torch_rows.py       the public TorchMapDataset: rows that a sampler chooses
#     torch_tensors.py    arrays -> tensors; ranks and processes that torch knows
#     pinned.py           rings that CUDA copies from, and when a copy is done
#     jax_arrays.py       the public jax_batches
#     tf_tensors.py       the public tf_dataset
#   reader/             runs only in a reader process
#     __main__.py         hands the control socket to the core
#     library_read.py     what the core does not decode, through h5py or PyTables
#     library_request.py  the same for requests; where, read_sorted, ragged rows
#   _core               the native core, built from core/: ring, fetch, filters, scatter
