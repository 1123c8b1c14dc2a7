parse <- function(...) clutch:::parse_stacks(...)

base_of_node <- paste(
  "\"withCallingHandlers\" \"doTryCatch\" \"tryCatchOne\" \"tryCatchList\" \"tryCatch\"",
  "\"serve\" \"fork_server_main\" \"<Anonymous>\" "
)
base_of_worker <- paste("\"do.call\" \"doTryCatch\" \"tryCatch\" \"workCommand\" \"workLoop\"",
                        "\"parallel:::.workRSOCK\" ")

test_that("lines of Rprof() are read", {
  x <- parse(c("1#2 \"hot\" 2#14 \"FUN\" ", "\"x[[\"a\"]]\" \"f\" ", "\"<GC>\" \"f\" 1#3 ", ""),
             c("#File 1: /a b/c.R", "#File 2: d.R"))
  expect_identical(x$calls, list(c("FUN", "hot"), c("f", "x[[\"a\"]]"), c("f", "<GC>"),
                                 character()))
  expect_identical(x$at[1:2], list(c("d.R:14", "/a b/c.R:2"), c("", "")))
  expect_identical(parse(character(), character()), list(calls = list(), at = list()))
})

test_that("what is the package's is cut off, and nothing else", {
  user <- function(line, where = "node") {
    clutch:::user_stacks(list(stacks = line, files = character()), where)$calls[[1L]]
  }
  expect_identical(user(paste0("\"hot\" \"FUN\" ", base_of_node)), c(".f", "hot"))
  expect_identical(user(paste0("\"hot\" \"f\" \"FUN\" ", base_of_node)), c(".f", "f", "hot"))
  expect_identical(user(paste0("\"hot\" \".f\" \".f\" \"FUN\" ", base_of_node)), c(".f", "hot"))
  expect_identical(user(paste0("\"hot\" \"FUN\" \".Call\" ", base_of_node)), c(".f", "hot"))
  # what the user's code catches, serves and calls is the user's
  own <- "\"withCallingHandlers\" \"serve\" \"do.call\" \"FUN\" "
  expect_identical(user(paste0(own, base_of_node)),
                   c(".f", "do.call", "serve", "withCallingHandlers"))
  expect_identical(user(paste0("\"hot\" \"<Anonymous>\" ", base_of_worker)),
                   c("<Anonymous>", "hot"))
  expect_identical(user(base_of_node), "(clutch)")
  expect_identical(user("\"serve\" \"fork_server_main\" "), "(clutch)")
  expect_identical(user(paste0("\"<GC>\" ", base_of_node)), c("(clutch)", "<GC>"))
  compiling <- "\"cmp\" \"cmpfun\" \"tryCatch\" \"compiler:::tryCmpfun\" \"hot\" \"FUN\" "
  expect_identical(user(paste0(compiling, base_of_node)), c(".f", "hot", "<compiler>"))
  in_session <- "\"f\" \"cluster_map\" \"clutch::cluster_profile\" \"g\" "
  expect_identical(user(in_session, "session"), c("cluster_map", "f"))
  expect_identical(user("\"cluster_profile\" \"g\" ", "session"), "(clutch)")
  deep <- strrep("\"recursive\" ", 900)
  expect_identical(unique(user(deep)), c("(deeper stack)", "recursive"))
})

test_that("samples of several processes share stacks, whatever the numbers of their files are", {
  one <- list(stacks = paste0("1#2 \"hot\" \"FUN\" ", base_of_node), order = c(1L, 1L),
              files = "#File 1: a.R", memory = NULL)
  two <- list(stacks = c(paste0("\"cold\" \"FUN\" ", base_of_node),
                         paste0("3#2 \"hot\" \"FUN\" ", base_of_node)),
              order = c(2L, 1L, 2L), files = c("#File 2: b.R", "#File 3: a.R"), memory = NULL)
  x <- clutch:::join_samples(list("1" = one, "2" = two))
  expect_identical(x$samples$node, c(1L, 1L, 2L, 2L, 2L))
  expect_identical(x$samples$stack, c(1L, 1L, 1L, 2L, 1L))
  expect_identical(x$stacks$at[[1L]], c("", "a.R:2"))
  expect_identical(nrow(clutch:::join_samples(list())$samples), 0L)
})
