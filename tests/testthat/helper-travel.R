# Objects that are of use in one process only, and packages that stand in for those of CRAN that are
# too large for tests: they have the functions that our recipes use, with pointers that are of use
# in one process only.

# A pointer that leads somewhere.
live_pointer <- function() .Call(clutch:::ffi_globals_new)

# Each stand-in has this: a handle is a pointer behind which is `data`, in the process that made it.
standin_common <- c(
  ".live <- new.env()",
  "handle <- function(data, class = NULL) {",
  "  p <- .Call(clutch:::ffi_globals_new)",
  "  if (!is.null(class)) class(p) <- class",
  "  assign(.Call(clutch:::ffi_address, p), list(p, data), envir = .live)",
  "  p",
  "}",
  "behind <- function(p) {",
  "  known <- .live[[.Call(clutch:::ffi_address, p)]]",
  "  is_valid <- .Call(clutch:::ffi_is_pointer, p) && !is.null(known)",
  "  if (!is_valid) stop('external pointer is not valid')",
  "  known[[2L]]",
  "}"
)

standin_code <- list(
  arrow = c(
    "object <- function(data, class) {",
    "  x <- new.env()",
    "  x$pointer <- handle(data)",
    "  x$chunk <- function(i) object(data, c('Array', 'ArrowDatum', 'ArrowObject', 'R6'))",
    "  x$serialize <- function() structure(serialize(behind(x$pointer), NULL), class = 'bytes')",
    "  x$x <- if (is.list(data)) data$x",
    "  structure(x, class = class)",
    "}",
    "table_class <- c('Table', 'ArrowTabular', 'ArrowObject', 'R6')",
    "arrow_table <- function(...) object(list(...), table_class)",
    "record_batch <- function(...) object(list(...), c('RecordBatch', table_class[-1]))",
    "as_record_batch <- function(x) object(behind(x$pointer), c('RecordBatch', table_class[-1]))",
    "column <- function(data, kind) object(data, c(kind, 'ArrowDatum', 'ArrowObject', 'R6'))",
    "schema <- function(...) object(c(...), c('Schema', 'ArrowObject', 'R6'))",
    "value <- function(x) behind(x$pointer)",
    "write_to_raw <- function(x, format) {",
    "  data <- behind(x$pointer)",
    "  if (inherits(data$x, 'ArrowObject')) data$x <- behind(data$x$pointer)",
    "  serialize(data, NULL)",
    "}",
    "read_ipc_stream <- function(file, as_data_frame) {",
    "  data <- unserialize(file)",
    "  chunks <- if (!is.null(data$x)) column(data$x, 'ChunkedArray')",
    "  t <- object(data, table_class)",
    "  t$x <- chunks",
    "  t",
    "}",
    "read_schema <- function(bytes) schema(unserialize(bytes))",
    "open_dataset <- function(files, format = 'parquet') {",
    "  d <- object(files, c('FileSystemDataset', 'Dataset', 'ArrowObject', 'R6'))",
    "  d$files <- files",
    "  d$format <- list(type = format)",
    "  d",
    "}"
  ),
  polars = c(
    "made <- function(data, class) {",
    "  x <- new.env()",
    "  x$pointer <- handle(data)",
    "  x$serialize <- function() serialize(behind(x$pointer), NULL)",
    "  structure(x, class = class)",
    "}",
    "value <- function(x) behind(x$pointer)",
    "pl <- list(",
    "  deserialize_df = function(data) made(unserialize(data), 'polars_data_frame'),",
    "  deserialize_lf = function(data) made(unserialize(data), 'polars_lazy_frame'),",
    "  deserialize_series = function(data) made(unserialize(data), 'polars_series')",
    ")"
  ),
  torch = c(
    "torch_tensor <- function(data) handle(data, c('torch_tensor', 'R7'))",
    "nn_linear <- function(data) {",
    "  weights <- torch_tensor(data)",
    "  structure(function(x) x * behind(weights), class = c('nn_linear', 'nn_module'))",
    "}",
    "value <- function(x) if (is.function(x)) x(2) else behind(x)",
    "torch_save <- function(obj, path) {",
    "  data <- if (is.function(obj)) behind(environment(obj)$weights) else behind(obj)",
    "  serialize(list(is.function(obj), data), path)",
    "}",
    "torch_load <- function(path) {",
    "  both <- unserialize(path)",
    "  if (both[[1L]]) nn_linear(both[[2L]]) else torch_tensor(both[[2L]])",
    "}"
  ),
  xgboost = c(
    "train <- function(data) {",
    "  structure(list(handle = handle(data), niter = 3), class = 'xgb.Booster')",
    "}",
    "value <- function(x) list(behind(x$handle), x$niter, class(x))",
    "xgb.save.raw <- function(model) serialize(behind(model$handle), NULL)",
    "xgb.load.raw <- function(buffer) train(unserialize(buffer))"
  ),
  lightgbm = c(
    "train <- function(data) {",
    "  x <- new.env()",
    "  x$handle <- handle(data)",
    "  x$save_model_to_string <- function() paste(behind(x$handle), collapse = ' ')",
    "  structure(x, class = c('lgb.Booster', 'R6'))",
    "}",
    "value <- function(x) behind(x$handle)",
    "lgb.load <- function(model_str) train(as.numeric(strsplit(model_str, ' ')[[1L]]))"
  ),
  bundle = c(
    "model <- function(data, class) structure(list(object = handle(data)), class = class)",
    "value <- function(x) behind(x$object)",
    "bundle <- function(x) {",
    "  structure(list(data = behind(x$object), class = class(x)), class = 'bundle')",
    "}",
    "unbundle <- function(x) model(x$data, x$class)"
  ),
  terra = c(
    "setClass('SpatRaster', representation(pointer = 'environment'))",
    "setClass('SpatVector', representation(pointer = 'environment'))",
    "spat <- function(data, class) {",
    "  e <- new.env()",
    "  e$.pointer <- handle(data)",
    "  new(class, pointer = e)",
    "}",
    "value <- function(x) behind(x@pointer$.pointer)",
    "wrap <- function(x) list(behind(x@pointer$.pointer), as.character(class(x)))",
    "unwrap <- function(x) spat(x[[1L]], x[[2L]])"
  ),
  XML = c(
    "xmlParse <- function(file, asText) {",
    "  handle(file, c('XMLInternalDocument', 'XMLAbstractDocument'))",
    "}",
    "saveXML <- function(doc) behind(doc)",
    "value <- function(x) behind(x)"
  ),
  magick = c(
    "image_read <- function(path) handle(unserialize(path), 'magick-image')",
    "image_write <- function(image, format) serialize(behind(image), NULL)",
    "value <- function(x) behind(x)"
  ),
  bigmemory = c(
    "setClass('big.matrix', representation(address = 'externalptr'))",
    "attach.big.matrix <- function(x) new('big.matrix', address = handle(x))",
    "describe <- function(x) behind(x@address)",
    "value <- function(x) behind(x@address)"
  ),
  DBI = c(
    "dbConnect <- function(drv, ...) drv$connect(...)",
    "dbIsValid <- function(dbObj) dbObj@is_open",
    "dbGetInfo <- function(dbObj) dbObj@info",
    "value <- function(x) behind(x@ptr)"
  ),
  duckdb = c(
    "setClass('duckdb_driver', representation(dbdir = 'character', read_only = 'logical'))",
    "setClass('duckdb_connection', representation(ptr = 'externalptr', driver = 'duckdb_driver',",
    "                                             is_open = 'logical'))",
    "duckdb <- function(dbdir, read_only = FALSE) list(connect = function() {",
    "  driver <- new('duckdb_driver', dbdir = dbdir, read_only = read_only)",
    "  new('duckdb_connection', ptr = handle(basename(dbdir)), driver = driver, is_open = TRUE)",
    "})",
    "value <- function(x) list(behind(x@ptr), x@driver@read_only)"
  ),
  RPostgres = c(
    "setClass('PqConnection', representation(ptr = 'externalptr', info = 'list',",
    "                                        is_open = 'logical'))",
    "Postgres <- function() list(connect = function(...) {",
    "  args <- list(...)",
    "  info <- c(args['dbname'], host = args$host, port = args$port, username = args$user,",
    "            password = NA)",
    "  new('PqConnection', ptr = handle(args), info = info, is_open = TRUE)",
    "})",
    "value <- function(x) behind(x@ptr)[c('dbname', 'host', 'port', 'user')]"
  )
)

# A library that has them all.
install_standins <- function(lib, packages = names(standin_code)) {
  for (name in packages) {
    src <- file.path(lib, "src", name)
    dir.create(file.path(src, "R"), recursive = TRUE)
    version <- if (name == "xgboost") "1.7" else "9.0"
    writeLines(c(paste("Package:", name), paste("Version:", version), "Title: T",
                 "Description: D.", "License: MIT", "Author: A", "Maintainer: A <a@b.c>",
                 "Imports: methods"), file.path(src, "DESCRIPTION"))
    writeLines(c("exportPattern('^[a-z.A-Z_]')", "import(methods)",
                 if (any(grepl("^setClass", standin_code[[name]]))) "exportClassPattern('.')"),
               file.path(src, "NAMESPACE"))
    writeLines(c(standin_common, standin_code[[name]]), file.path(src, "R", "a.R"))
  }
  utils::install.packages(file.path(lib, "src", packages), lib = lib, repos = NULL,
                          type = "source", quiet = TRUE, INSTALL_opts = "--no-test-load")
}
