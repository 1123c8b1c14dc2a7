# Values of R as JSON text: for pages and files that other programs read.
#
# A data frame becomes an object of its columns, each an array. A named list becomes an object, an
# unnamed one an array. A vector of length 1 becomes a number, string or null; any other, and what
# is I(), an array. What JSON does not know (NA, NaN, infinite numbers) is null.

to_json <- function(x) {
  if (is.null(x)) return("null")
  if (is.data.frame(x)) return(json_object(names(x), vapply(x, json_array, "")))
  if (is.list(x)) {
    values <- vapply(x, to_json, "")
    if (is.null(names(x))) return(paste0("[", paste(values, collapse = ","), "]"))
    return(json_object(names(x), values))
  }
  if (length(x) == 1L && !inherits(x, "AsIs")) json_values(x) else json_array(x)
}

json_object <- function(names, values) {
  if (!length(names)) return("{}")
  paste0("{", paste0(json_strings(names), ":", values, collapse = ","), "}")
}

json_array <- function(x) paste0("[", json_values(x), "]")

# The elements, with commas between them.
json_values <- function(x) {
  if (is.factor(x)) x <- as.character(x)
  if (is.character(x)) return(json_strings_joined(x))
  if (!typeof(x) %in% c("logical", "integer", "double")) x <- as.numeric(x)
  # 16 digits: microseconds of a time since the epoch
  .Call(ffi_json_numbers, x)
}

json_strings_joined <- function(x) {
  text <- .Call(ffi_json_strings, x, FALSE)
  if (is.null(text)) .Call(ffi_json_strings, escape_strings(x), TRUE) else text
}

# In quotes, each.
json_strings <- function(x) paste0("\"", escape_strings(x), "\"")

# Characters that are not plain are escaped where they have to be: also those that would end a line,
# or a <script>, where JSON stands in another text.
escape_strings <- function(x) {
  x <- enc2utf8(as.character(x))
  # in bytes: whatever the locale is, and of a thousand strings most are plain
  special <- !is.na(x) & grepl("[^] !#-;=?-[^-~]", x, useBytes = TRUE)
  x[special] <- vapply(x[special], escape_text, "", USE.NAMES = FALSE)
  x
}

escape_text <- function(text) {
  if (!validUTF8(text)) text <- iconv(text, "UTF-8", "UTF-8", sub = "byte")
  code <- utf8ToInt(text)
  if (anyNA(code)) return("")
  parts <- intToUtf8(code, multiple = TRUE)
  quoted <- code %in% c(0x22L, 0x5CL)
  parts[quoted] <- paste0("\\", parts[quoted])
  escaped <- code < 0x20L | code %in% c(0x3CL, 0x3EL, 0x7FL, 0x2028L, 0x2029L)
  parts[escaped] <- sprintf("\\u%04x", code[escaped])
  paste(parts, collapse = "")
}
