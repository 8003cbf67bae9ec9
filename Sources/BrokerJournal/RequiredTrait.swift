// A package that uses the product BrokerEmbedded without its trait gets this message. This target is a part of it that imports no
// other package: where a module is missing, that is the first and only error.
#if !Embedding && !Programs && !Replication
#error("BrokerEmbedded needs the trait Embedding: .package(url: …, traits: [\"Embedding\"])")
#endif
