// SPDX-License-Identifier: BSD-2-Clause
// Runs steps with Lettuce and its default options.
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.IntegerListOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;

final class LettuceClient {
    private record Name(String name) implements ProtocolKeyword {
        @Override
        public byte[] getBytes() {
            return name.getBytes();
        }
    }

    public static void main(String[] args) throws Exception {
        RedisClient client = RedisClient.create("redis://127.0.0.1:" + args[0]);
        var connection = client.connect();
        for (List<String[]> commands; (commands = Steps.next()) != null;) {
            List<RedisFuture<List<Long>>> replies = new ArrayList<>();
            connection.setAutoFlushCommands(commands.size() == 1);
            for (String[] command : commands) {
                var arguments = new CommandArgs<>(StringCodec.UTF8);
                for (int i = 1; i < command.length; i++) {
                    arguments.add(command[i]);
                }
                replies.add(connection.async().dispatch(
                    new Name(command[0]), new IntegerListOutput<>(StringCodec.UTF8), arguments));
            }
            connection.flushCommands();
            for (RedisFuture<List<Long>> reply : replies) {
                try {
                    Steps.show(reply.get());
                } catch (ExecutionException error) {
                    Steps.showError(error.getCause());
                }
            }
        }
        client.shutdown();
    }
}
