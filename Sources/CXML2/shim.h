// libxml2's push parser, as Swift sees it.
#ifndef BROKER_CXML2_SHIM_H
#define BROKER_CXML2_SHIM_H

// Where libxml2 was built with ICU, its header of encodings brings ICU's own, and these are others than those in Swift's
// Foundation: no program could import both. Only the members of a structure depend on it that Broker does not use.
#include <libxml/xmlversion.h>
#undef LIBXML_ICU_ENABLED
#include <libxml/parser.h>
#include <libxml/parserInternals.h>

/// The mark of a handler with the functions of libxml2's second interface; a macro beyond Swift's Int32.
static inline unsigned int broker_xml_sax2_magic(void) { return XML_SAX2_MAGIC; }

#endif
