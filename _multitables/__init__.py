# The library's inside; `multitables.py` is its face. Each folder may import those above it, as
# tests/laws/ holds; parent/ and reader/ are named by which process runs them.
#
#   errors.py                every exception, one message grammar
#   filter_names.py          filters that libraries bring along: number -> name
#   remote/                  objects of stores; readers import it, too
#     names.py               URLs and names of this machine: which is which, joined, whole
#     options.py             storage_options, checked, and without secrets in reprs and pickles
#     access.py              how readers get at one object, as bytes
#     client.py              ranges of objects through obstore
#     web.py                 those of web servers, where requests have secrets
#     relay.py               the client in a fork, which asks another process
#     relay_process.py       that process
#     failures.py            what a store did wrong: named, and as an exception
#   options.py               options: defaults, limits, checks; those of `open`
#   sizes.py                 sizes that the library chooses
#   tree.py                  one array, or a tuple or dict of them, and their paths
#   machine.py               the cores and the memory that this process may use
#   index/                   HDF5 files -> values, through the core's reader of metadata
#     types/                 what elements are, and what is wrong with a file
#       references.py        references to objects and regions, as values
#       as_h5py.py           objects that are h5py's to isinstance
#       numpy_type.py        HDF5 type -> the NumPy dtype of its elements
#       cast.py              the type and scale that readers convert numbers to
#       image.py             the public Image: elements that are pictures
#       element_type.py      the same, and what makes delivered elements of stored ones
#       hdf5_metadata.py     who wrote a dataset, and its filters
#       kind.py              Kind: what elements are, and how to decode them
#       hdf5_errors.py       what is wrong with a file or path -> exception
#       by_library.py        what the core does not know, from libhdf5 in another process
#       plugins.py           which filters readers decode, with those of plugins
#     chunk_index.py         ChunkIndex: where a dataset's rows come from
#     metadata.py            what a file says of its objects
#     saved/                 the index of a file, saved in another one
#       owners.py            who may have written it
#       format.py            where its bytes lie, replaced and opened
#       index_writer.py      its bytes, written
#       objects.py           what is saved of each object
#       survey.py            what many objects are, in columns
#       metadata.py          the core's answers, from a saved index
#       places.py            where it may be
#     files/                 files by their names, here and in stores
#       name.py              the name of one file, checked
#       names.py             lists and patterns of them
#       name_order.py        names in order, with numbers in them as numbers
#       open_options.py      PyTables' open_file options -> what matters to a stream
#       reach.py             which files a file may lead to
#       device.py            what kind of device holds a file
#       progress.py          how far a call is: a bar, and lines of the log
#       stored_files.py      a file by its name, here or in a store: what identifies it
#       stored_objects.py    objects of stores: identity and bytes
#       external_files.py    the raw files of an external dataset
#       stored_at.py         where a dataset's bytes lie, put into its index
#     kerchunk/              references of Kerchunk, read
#       layout.py            how they are called, and pyarrow
#       zarr_types.py        types, fill values and filters: HDF5's and Zarr's
#       datatype_message.py  NumPy dtype -> HDF5's message
#       store.py             reads references, and counts requests of stores
#       references.py        JSON or Parquet -> nodes and chunks
#       targets.py           the files and objects that references are to
#       metadata.py          the core's answers, from references
#     opened/                files that are open
#       whole_object.py      the metadata of an object, and its index
#       open_files.py        files, and the objects that paths lead to
#       runs.py              many objects: where they are
#     virtual/               virtual datasets
#       sources.py           where their sources are
#       chunks.py            one as the chunks of its sources, or as parts of them
#     datasets/              datasets of open files -> ChunkIndex
#       described.py         a dataset as its file describes it
#       heap.py              rows of any length, in the global heaps of files
#       source.py            a dataset in a file -> ChunkIndex
#       survey.py            many objects -> what they are, in a value of the core
#     written/               what is written of a file
#       saved_index.py       files -> their saved index
#       zarr_nodes.py        a file -> groups and arrays as Zarr has them
#       references.py        these -> JSON or Parquet
#     names/                 names of datasets
#       pattern.py           a path with wildcards -> the objects that it names
#       dataset_names.py     what a stream names in a file -> its datasets
#     joined/                datasets of many files as one
#       chunks.py            indexes of all -> one index
#       columns.py           those that are stored alike, as columns
#       source.py            several files as one
#       manifest.py          a manifest: many files, and what opens each
#       manifest_source.py   its files as one
#       manifest_survey.py   objects of all its files, where these are alike
#       kept_source.py       a file that is opened again and again
#     versions/              versions of datasets in one file
#       version.py           which version is meant
#       sources.py           versions as sources of their datasets
#       diff.py              which rows differ between two
#   elements/                stored elements -> values of NumPy, in the user's process
#     values.py              elements of any type, as h5py gives them
#     attribute.py           the value of an attribute
#     empty.py               the public Empty: a type without elements
#   select/                  what indexing a dataset means (pure)
#     selection.py           what indexing a dataset describes, as written
#     lazy_view.py           a result that is described, and NumPy's indexing of it
#     hyperslab.py           view -> the normal form that the core reads
#     fallback_call.py       selection -> what a library is asked
#     normalize.py           selection -> native, for a library, or refused
#     h5py_grammar.py      an index as h5py takes it
#     region.py            a selection that a file holds, as indexes
#   plan/                    what is to be read, and where it goes (pure)
#     reader_options.py      the options of what readers read
#     dataset_table.py       the datasets of a plan, and their stored chunks
#     tasks.py               which rows and chunks a reader claims at once
#     stream_plan.py         indexes + options -> ReadPlan
#     ring_size.py           how many rows and slots the ring has
#     growth.py              which rows of a dataset that grows are there
#     shared_chunks.py       several versions as the chunks that any of them has
#     row_order.py           the order of rows that are shuffled, as the core knows it
#     batch_plan.py          indexes + order + positions -> ReadPlan of batches
#     column_plan.py       groups of columns and the ends of blocks -> ReadPlan
#     inner_selection.py     what rows have of the axes behind the first
#     casts.py               the pictures, type and scale of each dataset of a stream
#     stacking.py            datasets that lie in one array
#     placing.py             crops, flips and channels: where readers place the elements of rows
#     row_subset.py          which rows take part in training
#     sharding.py            which positions of an epoch a rank delivers, and what is left
#     checkpoint.py          where training stands, as a state that can be saved
#     ragged.py              rows of different lengths: which come together
#     row_spans.py           where their elements lie
#     samples.py             samples that are not rows: clips, patches, ranges, places
#     sampled.py             the methods clips and patches of datasets
#     sample_rows.py         the rows of each sample
#     sample_cost.py         how often samples decode each chunk
#     taken.py               what samples take of a dataset: read, made, touched by damage
#     weights.py             how likely samples are, and the draws of an epoch
#     sample_boxes.py        the box of each patch, on a grid, and its padding
#     collection.py          many datasets: which belong together, where they lie in a result
#     item_batches.py        which items make a batch
#     key_groups.py          rows by the values of a key, and where blocks are cut
#     divisions.py         tables sorted by an index, cut by its values
#     damaged_chunks.py      rows that are skipped because their chunk cannot be read
#   wire/                    plans and requests as bytes (pure; readers import it, too)
#     plan_bytes.py          ReadPlan -> bytes that the core reads, datasets -> its table
#     request_bytes.py       what a request asks, as bytes for a reader
#     values.py              numbers, texts, arrays and their compounds, as bytes
#     survey_bytes.py        the datasets of a survey as a table of the core
#   parent/                  runs only in the user's process; the faces stand here
#     streamer.py            the public Streamer: paths and options -> queues
#     file_loaders.py        its other part: batches, collections and columns of a file
#     random_reader.py       the public Reader: datasets, and requests for what was indexed
#     codec_limit.py         the codec limit, to measure streams against
#     build_info.py          versions and features, for bug reports
#     index_file.py          the public index_file
#     index_files.py         the public index_files: a manifest
#     ranks.py             which rank this process is
#     event_log.py         when a rank started, opened, read and computed
#     versions.py            the public versions, and what differs between two
#     start_blocks.py        what is asked for -> a stream of whichever kind
#     dependents.py          what ends with an object that has given it out
#     typed.py               types of methods with several results, for type checkers
#     titles.py              what a stream is of, in the words of a repr
#     libraries.py           libraries that blocks are given to
#     arrow.py               blocks as arrays, record batches and streams of Arrow
#     notebook.py            HTML of what a repr says, for notebooks
#     readers/               reader processes
#       process.py           the only file that starts and signals processes
#       supervisor.py        starts, watches, replaces and stops readers
#       threads.py           threads of this process as readers of a stream
#       request_threads.py   the same for requests
#       reader_choice.py     who reads data: threads of this process, or processes
#       reader_pool.py       readers that rest between streams
#       counters.py          a reader's numbers, named
#       death.py             how a reader died, and at what
#       error_report.py      a reader's record of what went wrong -> exception
#       place.py             where in the data it went wrong
#       missing.py           what is missing, a file or a filter -> exception
#       siblings.py          chunks that children of this process share
#       local_rows.py      rows that this process needs before others are read
#     stream/                one pass over the data, or an endless one
#       open_stream.py       paths -> indexes; plan -> a stream that runs
#       whole_stream.py      little data, read before a block is taken
#       stream_queue.py      the queue of a stream, over any source
#       block_source.py      the protocol of sources of blocks
#       ring_blocks.py       blocks of a ring
#       growing_data.py      datasets that others write meanwhile
#       growing_blocks.py    blocks of a file that grows, by a ring for each piece of it
#       open_versions.py     versions -> a stream of the chunks that any of them has
#       version_blocks.py    blocks of several versions, from their chunks
#       row_generator.py     the rows of a queue, one at a time
#       warnings_of_streams.py  filters of libraries, files that are left out
#     node/                  readers that the ranks of a node share
#       place.py             which ranks these are, and to which run they belong
#       meeting.py           the private folder in which they find their host
#       kernel_view.py       what the kernel says of a process
#       messages.py          texts and memory between ranks and host
#       plans.py             what one rank has opened and planned, for the others
#       host_link.py         a rank's connection with the host
#       shared_readers.py    a rank's streams
#       host.py              the process that hosts the readers
#     ragged/                rows of different lengths
#       ragged_block.py      the public RaggedBlock, and what other libraries make of it
#       open_rows.py         paths -> where rows lie, read and checked
#       open_samples.py      the same of samples that are not rows
#       sample_keys.py       samples by their numbers
#       rows_of_requests.py  requests for ragged rows, and the block of their results
#       requested_blocks.py  blocks of a queue, by requests for spans
#       start_rows.py        options -> a stream that runs
#     batches/               epochs of batches over streams
#       loader.py            epochs, ranks and resume over any unit
#       unit.py              the units that loaders deliver, and the runs of an iteration
#       iteration.py         one loop over a loader, and its position
#       batches.py           the public Batches
#       row_unit.py          batches of rows, and their streams
#       mixture.py           the public Mixture: batches of several sources, by weight
#       damage.py            the damaged chunks that were left out, and their rows
#     collection/            items of many datasets
#       collection.py        the public Collection
#       item_spec.py         the paths of a collection, as the user gave them
#       item_unit.py         items: their order, and their streams
#       open_items.py        a path with wildcards -> which datasets are an item
#       item_blocks.py       items as blocks, with requests ahead of the user
#       item_reader.py       what is asked of readers for an item
#       item.py              the public Item
#       alone.py             datasets that are read one by one
#       dask_bag.py          items as a bag of Dask
#       item_batches.py      items of different lengths, padded to one
#     columns/               columns of groups
#       columns.py           the public Columns
#       key_unit.py          blocks of whole keys, of one group or of several at once
#       open_columns.py      groups and names -> columns, and the rows of each index value
#       column_block.py      the public blocks, and tables that other libraries make of them
#     open/                  the public `open`: files, groups and datasets with names of h5py
#       attributes.py        the attributes of an object
#       closed.py            files whose last handle was closed, kept for some seconds
#       conversion.py        elements of one dtype as elements of another, as HDF5 converts them
#       dataset.py           the public `Dataset` of `multitables.open`: h5py's names
#       dataset_id.py        how a dataset is stored, as h5py's ``dataset.id`` says it: its chunks
#       dimensions.py        the axes of a dataset
#       facts.py             what a dataset is in a few values
#       file.py              `multitables.open`, and the file that it gives
#       filters.py           the filters of a dataset in h5py's words
#       file_objects.py      file objects, and files that are open, as files with a name
#       group.py             groups: a mapping from names to objects, and ways through what is below
#       h5py_options.py      the options of h5py.File, and what they mean here
#       handle.py            what all objects of one `multitables.open` share
#       ids.py               h5py's low-level view of other objects
#       is_hdf5.py           `multitables.is_hdf5`: whether a file has HDF5's signature
#       kept.py              a property that is computed once
#       library.py           what only an HDF5 library can read, read in a process of its own
#       links.py             what links say: a path here, a path in another file, or an object
#       mapping.py           mappings by name, and views of them, that behave as h5py's
#       notebook.py          files, groups and datasets in notebooks
#       objects.py           what groups, datasets and named types have in common
#       properties.py        what a dataset was created with
#       read.py              `multitables.read`: one selection of one dataset, in one call
#       read_only.py         h5py's methods that write, refused: a file is only read
#       reading.py           the elements of one dataset, read into arrays
#       regions.py           parts of datasets as h5py has them: regions of references
#       results.py           memory for results
#       samples.py           clips and patches by their numbers
#       stored_type.py       the element type of a dataset: its dtype
#       views.py             views of a dataset that change what reading it gives: other types
#       visits.py            ways through the groups of a file, in the order of the names
#     random/                requests for what was indexed
#       dataset.py           datasets that are indexed without being read
#       dataset_handle.py    what selections know of their dataset, with its catalogues
#       stage.py             memory of the user's for results
#       request.py           a request: a future whose result lies in a stage
#       pieces.py            requests for whole datasets of a table
#       request_pool.py      requests in order, from one thread to another
#       proxy.py             a stand-in for a result, that ends with its block
#       service.py           what a Reader and its requests share
#       notifier.py          the thread that tells requests their end
#   later.py                 public names that are imported when they are first named
#   adapters/                runs in the user's process, each file with one library
#     torch_iterable.py      the public TorchDataset: batches as tensors
#     torch_items.py         items of a collection as tensors
#     numbered_rows.py       rows by number, which each library makes its own
#     torch_map.py           the public TorchMapDataset: rows that a sampler chooses
#     lightning_data.py      the public LightningData: loaders as a data module that resumes
#     huggingface_rows.py    the public to_huggingface: rows as an iterable dataset
#     grain_source.py        the public GrainSource and GrainDataset
#     dlio_reader.py         the public DlioReader: DLIO's reader of HDF5 files, with `open`
#     torch_tensors.py       arrays -> tensors; ranks and processes that torch knows
#     loader_epochs.py       the epochs of a DataLoader, told to its processes
#     pinned.py              rings that CUDA copies from, and when a copy is done
#     jax_arrays.py          the public jax_batches
#     dask_collections.py  the public to_dask and to_dask_dataframe
#     polars_scan.py         the public scan_polars
#     ray_source.py          the public RayDatasource
#     tf_tensors.py          the public tf_dataset
#     netcdf.py              groups of a file as netCDF-4 has them
#     xarray_engine.py       xarray's engine "multitables": these as datasets of xarray
#   command/                 the command `multitables`, over the face
#     program.py             sub-commands, and how it ends
#     names.py               which files the words of a command line name
#     output.py              records as lines: JSON, or text in columns
#     listing.py             `tree` and `ls`
#     one_dataset.py         `info` and `head`
#     advice.py              what would let a dataset be read faster
#     indexing.py            `index`
#     bench.py               `bench`: a stream beside a loop over h5py
#   benchmark/               the benchmark program, over the face, with a map of its own
#   reader/                  runs only in a reader process
#     __main__.py            hands the control socket to the core
#     fallback.py            what the core does not decode, through h5py or PyTables
#     local_file.py          a file for libraries, which open it by its name and lock it
#     object_file.py         an object as a file object for h5py, or an image for PyTables
#     box.py                 a NumPy key in two: what a library reads, and the rest
#     library_failure.py     what a library raised, explained
#     describe.py            a process that asks libhdf5 what a dataset is
#     plugins.py             where HDF5's plugins lie, and a process that tries one
#     output.py              what libraries print, held back
#   _core                    the native core, built from core/: ring, fetch, filters, scatter

import sys

if sys.platform != "linux":
    raise ImportError(
        f"multitables runs on Linux only, because its core shares memory and wakes threads by "
        f"calls of Linux's kernel, and this is {sys.platform!r}: use it on Linux, in a container, "
        f"or in WSL 2 on Windows"
    )
try:
    import _multitables._core  # noqa: F401 - here, where its lack is explained
except ImportError as error:
    raise ImportError(
        f"the native core of multitables cannot be loaded ({error}), because this copy was not "
        f"built, or was built for another machine: install multitables here with pip"
    ) from None
