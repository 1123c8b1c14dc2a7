# Where memory is short, another node comes for one that has nothing to do and keeps what tasks have
# left. A control group is needed: of a bound by option `clutch.memory` nodes have no part.

outside_checks_only()

renewing <- function(name) {
  linux_only()
  g <- memory_group(550)
  if (is.character(g)) skip(g)
  on.exit(expect_true(g$remove()))
  s <- start_limited(g$join, fixture_lines(c("renewed-nodes", name)))
  expect_done(s, 120)
  expect_true(ends(s))
  expect_identical(left_in(s), character())
}

test_that("nodes of maps are replaced, have what they were given, and none counts as dead", {
  renewing("renewed-nodes-of-maps")
})

test_that("nodes that the user has called stay: they may have what he wants", {
  renewing("nodes-with-state-stay")
})
