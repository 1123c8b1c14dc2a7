# Recipes of this package: see R/code-travel.R. Those for packages that are not there are not asked
# for. Functions of other packages are called by name, since none of these is needed otherwise.

# A function of an installed package.
of_package <- function(package, name) getExportedValue(package, name)

by_raw <- function(package, to, from) {
  list(
    package = package,
    to = function(x) of_package(package, to)(x),
    from = function(data) of_package(package, from)(data)
  )
}

# A recipe returns this of an object that may travel as it is.
as_it_is <- structure(list(), class = "clutch_as_it_is")

# ---- tables ----

arrow_table <- list(
  package = "arrow", also = "ArrowObject",
  to = function(x) as.vector(of_package("arrow", "write_to_raw")(x, format = "stream")),
  from = function(data) of_package("arrow", "read_ipc_stream")(data, as_data_frame = FALSE)
)

arrow_batch <- list(
  package = "arrow", also = "ArrowObject",
  to = arrow_table$to,
  from = function(data) of_package("arrow", "as_record_batch")(arrow_table$from(data))
)

arrow_column <- list(
  package = "arrow", also = "ArrowObject",
  to = function(x) {
    table <- of_package("arrow", "arrow_table")(x = x)
    list(data = arrow_table$to(table), is_array = inherits(x, "Array"))
  },
  from = function(data) {
    column <- arrow_table$from(data$data)$x
    if (data$is_array) column$chunk(0L) else column
  }
)

arrow_files <- list(
  package = "arrow", also = "ArrowObject",
  to = function(x) list(files = x$files, format = x$format$type),
  from = function(data) of_package("arrow", "open_dataset")(data$files, format = data$format)
)

arrow_schema <- list(
  package = "arrow", also = "ArrowObject",
  to = function(x) as.vector(x$serialize()),
  from = function(data) of_package("arrow", "read_schema")(data)
)

polars_by <- function(from) {
  list(
    package = "polars",
    to = function(x) x$serialize(),
    from = function(data) of_package("polars", "pl")[[from]](data)
  )
}

# ---- models ----

xgboost_model <- list(
  package = "xgboost",
  to = function(x) {
    # newer models keep their bytes themselves
    if (!is.list(x) || utils::packageVersion("xgboost") >= "2.1") return(as_it_is)
    rest <- unclass(x)
    list(raw = of_package("xgboost", "xgb.save.raw")(x), rest = rest[names(rest) != "handle"],
         attributes = attributes(x)[setdiff(names(attributes(x)), "names")])
  },
  from = function(data) {
    model <- of_package("xgboost", "xgb.load.raw")(data$raw)
    if (!is.list(model)) model <- list(handle = model)
    model <- unclass(model)
    model[names(data$rest)] <- data$rest
    names <- names(model)
    attributes(model) <- data$attributes
    names(model) <- names
    model
  }
)

lightgbm_model <- list(
  package = "lightgbm",
  to = function(x) x$save_model_to_string(),
  from = function(data) of_package("lightgbm", "lgb.load")(model_str = data)
)

by_torch <- list(
  package = "torch",
  to = function(x) {
    con <- rawConnection(raw(), "wb")
    on.exit(close(con))
    of_package("torch", "torch_save")(x, con)
    rawConnectionValue(con)
  },
  from = function(data) {
    con <- rawConnection(data)
    on.exit(close(con))
    of_package("torch", "torch_load")(con)
  }
)

by_bundle <- by_raw("bundle", "bundle", "unbundle")

# ---- maps, images, documents ----

by_terra <- by_raw("terra", "wrap", "unwrap")

by_magick <- list(
  package = "magick",
  to = function(x) of_package("magick", "image_write")(x, format = "miff"),
  from = function(data) of_package("magick", "image_read")(data)
)

# A node travels with what is below it, and is the root of a document then.
by_xml2 <- list(
  package = "xml2",
  to = function(x) {
    is_set <- inherits(x, "xml_nodeset")
    nodes <- if (is_set) lapply(seq_along(x), function(k) x[[k]]) else list(x)
    list(texts = vapply(nodes, as.character, ""), class = class(x), is_set = is_set,
         names = vapply(nodes, of_package("xml2", "xml_name"), ""),
         is_html = length(nodes) > 0L && is_html(nodes[[1L]]))
  },
  from = function(data) {
    nodes <- Map(function(text, name) node_of_text(text, name, data), data$texts, data$names)
    nodes <- unname(nodes)
    if (data$is_set) structure(nodes, class = data$class) else nodes[[1L]]
  }
)

# Only newer versions of xml2 have a class for it.
is_html <- function(node) {
  root <- of_package("xml2", "xml_root")(node)
  inherits(root, "html_document") ||
    (of_package("xml2", "xml_name")(root) == "html" && !startsWith(as.character(root), "<?xml"))
}

node_of_text <- function(text, name, data) {
  if (!data$is_html) {
    node <- of_package("xml2", "read_xml")(text)
  } else {
    node <- of_package("xml2", "read_html")(text)
    is_part <- !"xml_document" %in% data$class && !identical(name, "html")
    if (is_part) node <- of_package("xml2", "xml_find_first")(node, paste0("//", name))
  }
  structure(node, class = if (data$is_set) "xml_node" else data$class)
}

by_text_of_xml <- list(
  package = "XML",
  to = function(x) of_package("XML", "saveXML")(x),
  from = function(data) of_package("XML", "xmlParse")(data, asText = TRUE)
)

by_bigmemory <- by_raw("bigmemory", "describe", "attach.big.matrix")

# ---- databases ----

is_open <- function(connection) of_package("DBI", "dbIsValid")(connection)

connect <- function(package, driver, ...) {
  of_package("DBI", "dbConnect")(of_package(package, driver)(), ...)
}

sqlite_connection <- list(
  package = c("DBI", "RSQLite"),
  to = function(x) {
    if (!is_open(x)) return(as_it_is)
    name <- methods::slot(x, "dbname")
    rest <- list(flags = methods::slot(x, "flags"), vfs = methods::slot(x, "vfs"),
                 bigint = methods::slot(x, "bigint"))
    if (nzchar(name) && name != ":memory:" && file.exists(name))
      return(c(list(dbname = normalizePath(name)), rest))
    file <- tempfile(fileext = ".sqlite")
    on.exit(unlink(file))
    of_package("RSQLite", "sqliteCopyDatabase")(x, file)
    list(bytes = readBin(file, "raw", file.size(file)), bigint = rest$bigint)
  },
  from = function(data) {
    if (is.null(data$bytes))
      return(closes_itself(do.call(connect, c(list("RSQLite", "SQLite"), data))))
    file <- tempfile(fileext = ".sqlite")
    on.exit(unlink(file))
    writeBin(data$bytes, file)
    disk <- connect("RSQLite", "SQLite", file)
    on.exit(of_package("DBI", "dbDisconnect")(disk), add = TRUE, after = FALSE)
    memory <- connect("RSQLite", "SQLite", ":memory:", bigint = data$bigint)
    of_package("RSQLite", "sqliteCopyDatabase")(disk, memory)
    closes_itself(memory)
  }
)

# Nobody closes a connection that was made for a map, and RSQLite warns of one that becomes garbage
# open. The finalizer that was registered last comes first.
closes_itself <- function(connection) {
  shell <- connection
  methods::slot(shell, "ptr", check = FALSE) <- methods::new("externalptr")
  close <- function(pointer) {
    methods::slot(shell, "ptr", check = FALSE) <- pointer
    try(suppressWarnings(of_package("DBI", "dbDisconnect")(shell)), silent = TRUE)
  }
  reg.finalizer(methods::slot(connection, "ptr"), close)
  connection
}

duckdb_connection <- list(
  package = c("DBI", "duckdb"),
  to = function(x) {
    if (!is_open(x)) return(as_it_is)
    driver <- methods::slot(x, "driver")
    folder <- methods::slot(driver, "dbdir")
    if (!nzchar(folder) || folder == ":memory:") {
      stop("a database of duckdb that is in memory is in this process only: give it a file")
    }
    list(dbdir = normalizePath(folder), read_only = methods::slot(driver, "read_only"))
  },
  from = function(data) {
    driver <- of_package("duckdb", "duckdb")(data$dbdir, read_only = data$read_only)
    of_package("DBI", "dbConnect")(driver)
  }
)

server_connection <- function(package, driver) {
  list(
    package = c("DBI", package),
    to = function(x) {
      if (!is_open(x)) return(as_it_is)
      of_server <- of_package("DBI", "dbGetInfo")(x)
      user <- c(of_server$username, of_server$user)[1L]
      args <- list(dbname = of_server$dbname, host = of_server$host, port = of_server$port,
                   user = user)
      args[lengths(args) == 1L & !vapply(args, anyNA, NA)]
    },
    from = function(data) do.call(connect, c(list(package, driver), data))
  )
}

# ---- compiled code ----

# The functions of Rcpp::sourceCpp() call a function of a library by its address.
native_symbol <- list(
  package = character(),
  to = function(x) {
    found <- .Call(ffi_symbol_of, x)
    if (is.null(found)) stop("it is not known which function of which library this is")
    library_of(found[[1L]], found[[2L]])
  },
  from = function(data) getNativeSymbolInfo(data$symbol, load_library(data))$address
)

native_symbol_info <- list(
  package = character(),
  to = function(x) library_of(x$dll[["path"]], x$name),
  from = function(data) getNativeSymbolInfo(data$symbol, load_library(data))
)

dll_info <- list(
  package = character(),
  to = function(x) library_of(x[["path"]]),
  from = function(data) load_library(data)
)

# `package`: whose library it is, which every host may have elsewhere.
library_of <- function(path, symbol = NULL) {
  if (!file.exists(path)) return(list(loaded = path, symbol = symbol)) # R's own: "base"
  home <- dirname(dirname(path))
  is_of_package <- basename(dirname(path)) == "libs" && file.exists(file.path(home, "DESCRIPTION"))
  uses_rcpp <- isNamespaceLoaded("Rcpp") && !is_of_package
  structure(list(path = normalizePath(path), symbol = symbol,
                 package = if (is_of_package) basename(home), load = if (uses_rcpp) "Rcpp"),
            class = "clutch_library")
}

# Libraries of packages do not travel.
library_bytes <- function(path) {
  is_of_package <- file.exists(file.path(dirname(dirname(path)), "DESCRIPTION"))
  if (!is_of_package) readBin(path, "raw", file.size(path))
}

# The files of libraries that have come, where they are not there: one is remembered by its path.
take_libraries <- function(libraries) {
  for (path in setdiff(names(libraries), names(the$libraries))) {
    bytes <- libraries[[path]]
    is_here <- file.exists(path) && file.size(path) == length(bytes) &&
      identical(readBin(path, "raw", length(bytes)), bytes)
    at <- path
    if (!is_here) {
      folder <- tempfile("library")
      dir.create(folder)
      at <- file.path(folder, basename(path))
      writeBin(bytes, at)
    }
    the$libraries[[path]] <- at
  }
}

load_library <- function(data) {
  if (!is.null(data$loaded)) return(getLoadedDLLs()[[data$loaded]])
  if (!is.null(data$package)) return(library_of_package(data$package))
  if (!is.null(data$load)) loadNamespace(data$load)
  at <- the$libraries[[data$path]]
  dyn.load(if (is.null(at)) data$path else at)
}

library_of_package <- function(package) {
  loadNamespace(package)
  getLoadedDLLs()[[package]]
}

# ---- all ----

own_recipes <- list(
  Table = arrow_table,
  RecordBatch = arrow_batch,
  ChunkedArray = arrow_column,
  Array = arrow_column,
  Schema = arrow_schema,
  FileSystemDataset = arrow_files,
  polars_data_frame = polars_by("deserialize_df"),
  polars_lazy_frame = polars_by("deserialize_lf"),
  polars_series = polars_by("deserialize_series"),
  xgb.Booster = xgboost_model,
  lgb.Booster = lightgbm_model,
  torch_tensor = by_torch,
  nn_module = by_torch,
  keras.engine.training.Model = by_bundle,
  keras.src.models.model.Model = by_bundle,
  luz_module_fitted = by_bundle,
  H2OModel = by_bundle,
  H2OAutoML = by_bundle,
  SpatRaster = by_terra,
  SpatVector = by_terra,
  xml_node = by_xml2,
  xml_nodeset = by_xml2,
  XMLInternalDocument = by_text_of_xml,
  `magick-image` = by_magick,
  big.matrix = by_bigmemory,
  SQLiteConnection = sqlite_connection,
  duckdb_connection = duckdb_connection,
  PqConnection = server_connection("RPostgres", "Postgres"),
  MariaDBConnection = server_connection("RMariaDB", "MariaDB"),
  NativeSymbol = native_symbol,
  NativeSymbolInfo = native_symbol_info,
  DLLInfo = dll_info
)
