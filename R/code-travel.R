# How objects that are of use in one process only are made again in another. A pointer of compiled
# code is nil where it arrives. So what has one travels as data of which it is made again, by a
# recipe:
#   class    of the objects
#   to       function of an object: the data
#   from     function of the data: the object
#   package  what is needed for that, for recipes of this package (R/code-recipes.R)
#   also     a class that the objects have, too, where the name of theirs is a usual word
# Users and packages add theirs by register_travel(), or have told package mirai. R/code-pack.R has
# objects packed.

#' Say how objects of a class travel to the nodes
#'
#' @description
#' Objects with external pointers in them are of use in one process only: models, tables, handles
#' and connections of compiled code. `register_travel()` says of which data they are made again in
#' another one. Then they travel in variables, constants, elements and results of maps and tasks, on
#' their own or within lists, closures and R6 objects.
#'
#' What packages have said to \pkg{mirai} by its `register_serial()` holds here, too. Recipes for
#' objects of the following packages are in this one: \pkg{arrow} (tables, arrays, data sets of
#' files), \pkg{polars}, \pkg{torch} (tensors, modules), \pkg{xgboost}, \pkg{lightgbm}, \pkg{keras},
#' \pkg{luz} and \pkg{h2o} (by \pkg{bundle}), \pkg{terra}, \pkg{xml2}, \pkg{XML}, \pkg{magick},
#' \pkg{bigmemory}; connections of \pkg{RSQLite}, \pkg{duckdb}, \pkg{RPostgres} and \pkg{RMariaDB}
#' (made anew on the node); functions of `Rcpp::sourceCpp()`, whose library file travels.
#'
#' @details
#' `from` runs where the object arrives: it travels as any function, with what it needs. A node
#' makes an object that all elements use once for a map. An object that is in two places of what
#' travels together is one object there, too.
#'
#' A connection to a database is made anew with the same arguments. A database in memory of
#' \pkg{RSQLite} travels with its tables, one of \pkg{duckdb} cannot travel. Passwords do not:
#' \pkg{RPostgres} and \pkg{RMariaDB} find them as their libraries do (`PGPASSWORD`, `~/.pgpass`,
#' `~/.my.cnf`).
#'
#' Some objects have pointers and travel as they are, because their packages make new ones where
#' they are nil, or do without: those of \pkg{data.table}, \pkg{igraph}, \pkg{lme4}, \pkg{TMB},
#' \pkg{rstan}, \pkg{cachem} and others.
#'
#' The functions of package \pkg{parallel} send pointers as base R does: nil.
#' @param class character vector: names of classes. A subclass has the recipe of its parent, unless
#'   there is one for itself.
#' @param to function of an object of that class, which returns data that can be serialized; `NULL`:
#'   forget what was said of these classes.
#' @param from function of the data, which returns the object.
#' @return `NULL`, invisibly.
#' @section Errors: `clutch_argument`: an argument is of no use. Of maps and tasks:
#'   * `clutch_pointer` (`path`, `object_class`): what travels has an external pointer, and nothing
#'     says how it is made again. It is signalled before anything starts; where a result has the
#'     pointer, it is the error of that element (in `parent`). See argument `.pointers` of
#'     [cluster_map()].
#'   ```
#'   f <- function(i) xml2::xml_text(node)
#'   tryCatch(cluster_map(cl, 1:2, f), clutch_pointer = function(e) e$path)
#'   ```
#' @seealso [cluster_map()] for `.pointers`
#' @examples
#' # a connection that reads a text, as a package might have it
#' reader <- function(lines) {
#'   structure(list(lines = lines, con = textConnection(lines)), class = "reader")
#' }
#' register_travel("reader", to = function(x) x$lines, from = reader)
#' r <- reader(c("a", "b"))
#' cl <- make_cluster(2)
#' cluster_map(cl, 1:2, function(i) readLines(r$con, 1))
#' stop_cluster(cl)
#' close(r$con)
#' register_travel("reader", NULL)
#' @export
register_travel <- function(class, to, from = NULL) {
  is_class <- is.character(class) && length(class) > 0L && !anyNA(class) && all(nzchar(class))
  if (!is_class) has_to_be("`class`", "names of classes")
  if (!is.null(to)) {
    if (!is.function(to)) has_to_be("`to`", "a function of an object, or NULL")
    if (!is.function(from)) has_to_be("`from`", "a function of the data that `to` returns")
  }
  for (name in class) {
    the$travel[[name]] <- if (!is.null(to)) list(class = name, to = to, from = from)
  }
  invisible()
}

# ---- recipes ----

# By class: what users have registered, and packages for mirai.
registered_recipes <- function() {
  recipes <- mirai_recipes()
  recipes[names(the$travel)] <- the$travel
  recipes
}

# Recipes of mirai's own list. Packages that wait for mirai before they register, as polars does,
# are heard when it is loaded.
mirai_recipes <- function() {
  waits <- length(getHook(packageEvent("mirai", "onLoad"))) > 0L
  if (waits && !isNamespaceLoaded("mirai")) requireNamespace("mirai", quietly = TRUE)
  serial <- mirai_serial()
  if (is.null(serial)) return(list())
  recipes <- .mapply(function(class, to, from) list(class = class, to = to, from = from), serial,
                     NULL)
  names(recipes) <- serial[[1L]]
  recipes[!duplicated(names(recipes), fromLast = TRUE)]
}

# That list: classes, functions to raw vectors, functions from these. NULL: nothing is registered.
mirai_serial <- function() {
  if (!isNamespaceLoaded("mirai")) return(NULL)
  state <- get0(".", asNamespace("mirai"), inherits = FALSE)
  serial <- if (is.environment(state)) state[["serial"]]
  is_known <- is.list(serial) && length(serial) == 3L && is.character(serial[[1L]]) &&
    length(unique(lengths(serial))) == 1L
  if (is_known) serial
}

# Tells whether users or packages have registered any.
has_registered <- function() length(the$travel) > 0L || !is.null(mirai_serial())

# These functions travel, and what they need has to.
functions_of_recipes <- function(registered) lapply(unname(registered), `[`, c("to", "from"))

# The recipe for an object, or NULL. `registered`: of registered_recipes().
recipe_of <- function(x, registered) {
  if (!is.object(x)) return(NULL)
  for (class in if (isS4(x)) methods::is(x) else class(x)) {
    recipe <- registered[[class]]
    if (is.null(recipe)) recipe <- own_recipe(class, x)
    if (!is.null(recipe)) return(recipe)
  }
}

own_recipe <- function(class, x) {
  recipe <- own_recipes[[class]]
  if (is.null(recipe)) return(NULL)
  if (!is.null(recipe$also) && !inherits(x, recipe$also)) return(NULL)
  recipe$class <- class
  if (all(vapply(recipe$package, is_installed_package, NA))) recipe
}
