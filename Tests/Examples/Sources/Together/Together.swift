import Broker
import BrokerClient
import GRDB
import Hummingbird

// A name that two of these libraries have would be ambiguous here, and this would not compile. It is no program.
let typesOfBroker: [Any.Type] = [
    AdminAction.self, AdminResult.self, Backup.self, BrokerAddress.self, RemoteBroker.self,
    RemoteBroker.Configuration.self,
    BrokerConnectionState.self, BrokerError.self, BrokerPredicate.self, Completion.self, FetchedValues<Int>.self,
    Job.self,
    JobID.self, Link<Int, Int>.self, ModelDescription.self, ModelMigration.self, Nullable<Int>.self, Query.self,
    QueryResult.self,
    QueryResults.self,
    RawJSON.self, RemovedParts.self, ServerInformation.self, Statistics.self, SubmittedJob.self,
]
let typesOfHummingbird: [Any.Type] = [
    BasicRequestContext.self, Environment.self, HTTPError.self, Request.self, Response.self,
    Router<BasicRequestContext>.self,
]
let typesOfGRDB: [Any.Type] = [
    Column.self, Configuration.self, Database.self, DatabasePool.self, DatabaseQueue.self,
    QueryInterfaceRequest<Row>.self, Row.self,
    SQL.self,
]
